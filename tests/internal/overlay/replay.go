package overlay

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// repeating makes Go's runtime do the same every time in a bubble of testing/synctest, if GOMAXPROCS is 1 and the garbage
// collector runs only when the bubble says so. Each old text occurs once in its file.
var repeating = []struct{ file, old, text string }{
	// Random numbers of a bubble come from its own state: the order of select's cases, of timers that fire at once, of a
	// map's elements, and what math/rand draws without a source. seedBubble sets the state.
	{"runtime/synctest.go", "	id      uint64 // unique id\n", "	id      uint64 // unique id\n	drawn   uint64\n	chans   uint64 // made so far\n"},
	{"runtime/rand.go", "//go:linkname rand\nfunc rand() uint64 {\n", `//go:linkname rand
func rand() uint64 {
	if b := getg().bubble; b != nil {
		return b.draw()
	}
	return mrand()
}

//go:linkname seedBubble
func seedBubble(seed uint64) { getg().bubble.drawn = seed }

// draw is SplitMix64.
//
//go:nosplit
func (b *synctestBubble) draw() uint64 {
	b.drawn += 0x9e3779b97f4a7c15
	x := b.drawn
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

//go:nosplit
func mrand() uint64 {
`},
	{"runtime/select.go", "cheaprandn(uint32(norder + 1))\n", "cheaprandn(uint32(norder + 1))\n		if gp.bubble != nil {\n			j = uint32(gp.bubble.draw() % uint64(norder+1))\n		}\n"},
	{"runtime/time.go", "t.rand = cheaprand()", "t.rand = uint32(getg().bubble.draw())"},
	// sync.Pool and the scheduler draw other numbers of them under the race detector. They keep those of the thread.
	{"runtime/rand.go", "uint64(uint32(rand())) * uint64(n)", "uint64(uint32(mrand())) * uint64(n)"},
	{"runtime/proc.go", "const randomizeScheduler = raceenabled", "const randomizeScheduler = false"},
	// Hashes, on which the order of a map's elements depends, and the address at which the heap begins are the same in every process.
	{"runtime/rand.go", "globalRand.state.Init(*seed)", "*seed = [32]byte{1}\n	globalRand.state.Init(*seed)"},
	// A select that waits locks its channels and starts their timers in the order in which the channels were made, not by address.
	// Addresses depend on what was allocated outside the bubble. The order in which timers start decides which random numbers they get.
	{"runtime/chan.go", "	bubble   *synctestBubble\n", "	bubble   *synctestBubble\n	order    uint64 // in which the bubble's channels were made\n"},
	{"runtime/chan.go", "		c.bubble = b\n", "		b.chans++\n		c.bubble, c.order = b, b.chans\n"},
	{"runtime/select.go", "	return uintptr(unsafe.Pointer(c))\n", "	if c.bubble != nil {\n		return uintptr(c.order)\n	}\n	return uintptr(unsafe.Pointer(c))\n"},
	// A goroutine runs until it waits, not for 10 ms.
	{"runtime/proc.go", "const forcePreemptNS = 10 * 1000 * 1000", "const forcePreemptNS = 1 << 60"},
	// The queue of all threads has its turn when that of the one thread is empty, not after every 61 turns, of which goroutines
	// outside the bubble have some.
	{"runtime/proc.go", "if pp.schedtick%61 == 0 && !sched.runq.empty() {", "if false {"},
	// A sync.Mutex goes to its oldest waiter after 1 ms: of the bubble's time.
	{"runtime/sema.go", "func internal_sync_nanotime() int64 {\n", "func internal_sync_nanotime() int64 {\n	if b := getg().bubble; b != nil {\n		return b.now\n	}\n"},
}

// WriteReplay writes Go's runtime to dir as the simulation needs it in order to repeat worlds, and the list for
// -overlay. It returns the name of the list. It fails with a version of Go that it does not know.
func WriteReplay(dir string) (list string, err error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	src := filepath.Join(strings.TrimSpace(string(out)), "src")
	edited := map[string]string{}
	for _, e := range repeating {
		text := edited[e.file]
		if text == "" {
			file, err := os.ReadFile(filepath.Join(src, filepath.FromSlash(e.file)))
			if err != nil {
				return "", err
			}
			text = string(file)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return "", fmt.Errorf("%s of %s has %d times what is to be replaced there, not once; internal/overlay/replay.go has to learn this version of Go:\n%s", e.file, src, n, e.old)
		}
		edited[e.file] = strings.Replace(text, e.old, e.text, 1)
	}
	return write(dir, src, edited)
}
