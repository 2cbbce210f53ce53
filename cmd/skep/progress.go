package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/skepdb/skep/client"
	"github.com/skepdb/skep/jobs"
)

// progress draws how far an operation is, on one line of a terminal that is
// wiped at the end. It returns what ends it.
func (a *app) progress(op client.Operation, silent bool) (stop func()) {
	if silent {
		return func() {}
	}
	return a.drawProgress(op.Status)
}

// drawProgress draws how far a job is; status is false while there is none.
func (a *app) drawProgress(status func() (jobs.Status, bool)) (stop func()) {
	if !a.errTTY {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		const pause = 200 * time.Millisecond // short statements draw nothing
		tick := time.NewTicker(pause)
		defer tick.Stop()
		drawn := false
		for {
			select {
			case <-end:
				if drawn {
					fmt.Fprint(a.err, "\r\x1b[K")
				}
				return
			case <-tick.C:
				if s, ok := status(); ok {
					fmt.Fprint(a.err, "\r\x1b[K"+progressLine(s))
					drawn = true
				}
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// progressLine is "stage 1/2 scan [=====>    ] 45 % 3/8 tasks".
func progressLine(s jobs.Status) string {
	for i, st := range s.Stages {
		if st.State == jobs.Succeeded {
			continue
		}
		const width = 24
		share := min(max(st.Progress, 0), 1)
		filled := int(share * width)
		bar := strings.Repeat("=", filled) + strings.Repeat(" ", width-filled)
		return fmt.Sprintf("stage %d/%d %s [%s] %3.0f %% %d/%d tasks", i+1, len(s.Stages), st.Name, bar, share*100, st.Done, st.Tasks)
	}
	return "publishing"
}
