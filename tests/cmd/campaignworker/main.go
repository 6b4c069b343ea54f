// Campaignworker is a process of a campaign that uses the locks of this library.
package main

import "github.com/holdfast-go/holdfast/tests/internal/campaign/worker"

func main() { worker.Main(worker.Open) }
