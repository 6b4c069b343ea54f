package engine

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"
)

// tokens makes a client's tokens, and recognises them. Whoever may publish on its channel can name any token
// in a message, also that of a lock's holder, which every reader of the server sees; the client gives back only
// what it has waited for itself.
//
// A token is a block of AES under a key that only the client has: of a number, whether its attempt
// waits, and a hash of the lock's key. A block cipher is a permutation that nobody without the key can tell
// from a random one (https://nvlpubs.nist.gov/nistpubs/FIPS/NIST.FIPS.197-upd1.pdf): tokens differ, and the next
// is as hard to guess as 128 random bits.
type tokenMint struct {
	block cipher.Block
	seed  maphash.Seed // of the hash of keys
	made  atomic.Uint64
}

// waiterBit is the bit of a token's number that says that its attempt can be notified.
const waiterBit = 1 << 63

func (t *tokenMint) init() {
	var key [16]byte
	_, _ = rand.Read(key[:])           // never fails, since Go 1.24
	t.block, _ = aes.NewCipher(key[:]) // has a key of a size that it takes
	t.seed = maphash.MakeSeed()
}

// between makes a token for the lock with that key, of an attempt that waits, or does not, and returns it between two
// texts.
func (t *tokenMint) between(before, after, key string, kind uint64) string {
	// mutants: new-token
	number := t.made.Add(1)
	// All in one piece of memory: what is given to the cipher escapes.
	memory := make([]byte, aes.BlockSize, aes.BlockSize+len(before)+len(after)+base64.RawURLEncoding.EncodedLen(aes.BlockSize))
	block, text := memory, memory[aes.BlockSize:]
	binary.BigEndian.PutUint64(block, number|kind)
	binary.BigEndian.PutUint64(block[8:], maphash.String(t.seed, key))
	t.block.Encrypt(block, block)
	text = append(text, before...)
	text = base64.RawURLEncoding.AppendEncode(text, block)
	return string(append(text, after...))
}

// waited reports whether an attempt of this client, for the lock with that key, waited under the token.
func (t *tokenMint) waited(token, key string) bool {
	block, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(block) != aes.BlockSize {
		return false
	}
	t.block.Decrypt(block, block)
	number := binary.BigEndian.Uint64(block)
	return number&waiterBit != 0 && number&^waiterBit <= t.made.Load() && binary.BigEndian.Uint64(block[8:]) == maphash.String(t.seed, key)
}
