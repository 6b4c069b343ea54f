package keys

import "strings"

// Slot returns the key's Cluster slot: the CRC16 (XMODEM) of its hash tag, or of the whole key if it has none, modulo
// 16384.
func Slot(key string) uint16 {
	if tag, ok := hashTag(key); ok {
		key = tag
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^key[i]]
	}
	return crc % Slots
}

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
