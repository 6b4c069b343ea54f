package keys

import (
	"strconv"
	"strings"
	"sync"
)

// Slot returns the key's Cluster slot: the CRC16 (XMODEM) of its hash tag, or of the whole key if it has none, modulo 16384.
func Slot(key string) uint16 {
	if tag, ok := hashTag(key); ok {
		key = tag
	}
	var crc uint16
	for i := range len(key) {
		crc = extend(crc, key[i])
	}
	return crc % Slots
}

// extend returns the CRC16 of a text that is one byte longer.
func extend(crc uint16, b byte) uint16 { return crc<<8 ^ crc16[byte(crc>>8)^b] }

// hashTag returns the key's hash tag, if it has one: the text between the first { and the next }, unless that is empty.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
func hashTag(key string) (string, bool) {
	_, rest, ok := strings.Cut(key, "{")
	if !ok {
		return "", false
	}
	tag, _, ok := strings.Cut(rest, "}")
	return tag, ok && tag != ""
}

// Tag returns the least number above 0 that is in the slot when its digits are the hash tag.
func Tag(slot uint16) string { return strconv.Itoa(int(tags()[slot])) }

// tags has the Tag of each slot.
var tags = sync.OnceValue(func() *[Slots]uint32 {
	all, left := new([Slots]uint32), Slots
	crcs := []uint16{0} // of each number's digits; for 0, of no digits
	for n := 1; left > 0; n++ {
		crc := extend(crcs[n/10], byte('0'+n%10))
		crcs = append(crcs, crc)
		if slot := crc % Slots; all[slot] == 0 {
			all[slot] = uint32(n)
			left--
		}
	}
	return all
})

// Slots is the number of slots of a Cluster.
const Slots = 16384

// crc16 is the table of the CRC16 (XMODEM) of each byte.
var crc16 = func() (table [256]uint16) {
	for b := range table {
		crc := uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[b] = crc
	}
	return table
}()
