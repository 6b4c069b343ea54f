//go:build linux

package child

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// asParent makes the test binary start a cat on its own standard input and output, report that, and wait to be
// killed.
const asParent = "HOLDFAST_CHILD_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(asParent) == "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("cat")
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	if err := Start(cmd); err != nil {
		panic(err)
	}
	_ = cmd.Wait() // until this process is killed; if nothing waited, the runtime would end it
	os.Exit(1)
}

func TestChildDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), asParent+"=1")
	in, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = parent.Process.Kill()
		_ = parent.Wait()
	}()

	lines := bufio.NewReader(out)
	if _, err := in.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := lines.ReadString('\n'); line != "hello\n" {
		t.Fatalf("the child echoed %q, %v", line, err)
	}

	// The pipe that is read ends only when parent and child have both ended. The pipe that is written stays
	// open, so that cat has no reason of its own to end.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = lines.ReadString('\n')
	}()
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("the child outlived its parent, which was killed")
	}
}

// A goroutine that ends while it is locked to its thread ends the thread, too, and so would kill a child forked
// there.
func TestChildOutlivesTheThreadThatAskedForIt(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- Start(cmd)
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		t.Errorf("the child ended with the thread: %v", err)
	case <-time.After(200 * time.Millisecond):
		_ = cmd.Process.Kill()
		<-ended
	}
}
