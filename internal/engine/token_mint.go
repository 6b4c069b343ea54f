package engine

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// tokenMint makes a client's tokens and recognises them. Anyone who may publish on the client's
// channel can name any token in a message, even a holder's, which everyone who may read the server
// can see. So the client gives back only locks that it has waited for itself.
//
// A token is a block of AES under a key that only the client has. The block holds a number, a bit
// that says whether the token's attempt waits, and a hash of the lock's key. Nobody without the key
// can tell a block cipher from a random permutation
// (https://nvlpubs.nist.gov/nistpubs/FIPS/NIST.FIPS.197-upd1.pdf): all tokens differ, and the next
// one is as hard to guess as 128 random bits.
type tokenMint struct {
	block cipher.Block
	seed  maphash.Seed // of the hash of keys
	made  atomic.Uint64
}

// waiterBit is set in the number of a token whose attempt can be notified.
const waiterBit = 1 << 63

func (t *tokenMint) init() {
	var key [16]byte
	_, _ = rand.Read(key[:])           // never fails, since Go 1.24
	t.block, _ = aes.NewCipher(key[:]) // never fails: the key has a valid length
	t.seed = maphash.MakeSeed()
}

// head makes a token for the lock with that key and returns its head. kind is waiterBit if the
// attempt waits, otherwise 0.
func (t *tokenMint) head(key string, kind uint64) wire.Head {
	// mutants: new-token
	number := t.made.Add(1)
	// Block and text share one allocation: what is passed to the cipher escapes.
	memory := make([]byte, aes.BlockSize, aes.BlockSize+len(wire.HeadBegin)+len(wire.HeadEnd)+base64.RawURLEncoding.EncodedLen(aes.BlockSize))
	block, text := memory, memory[aes.BlockSize:]
	binary.BigEndian.PutUint64(block, number|kind)
	binary.BigEndian.PutUint64(block[8:], maphash.String(t.seed, key))
	t.block.Encrypt(block, block)
	text = append(text, wire.HeadBegin...)
	text = base64.RawURLEncoding.AppendEncode(text, block)
	return wire.Head(append(text, wire.HeadEnd...))
}

// waited reports whether an attempt of this client waited for the lock with that key under the
// token.
func (t *tokenMint) waited(token, key string) bool {
	block, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(block) != aes.BlockSize {
		return false
	}
	t.block.Decrypt(block, block)
	number := binary.BigEndian.Uint64(block)
	return number&waiterBit != 0 && number&^waiterBit <= t.made.Load() && binary.BigEndian.Uint64(block[8:]) == maphash.String(t.seed, key)
}
