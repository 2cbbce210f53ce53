package export

import (
	"fmt"
	"strings"
	"time"

	cron "github.com/netresearch/go-cron"
	"github.com/skepdb/skep/internal/fault"
)

// Missed says what becomes of times at which nobody ran the schedule.
type Missed string

// The rules for missed times.
const (
	MissedOnce Missed = "once" // the last of them is made up for
	MissedAll  Missed = "all"  // each is
	MissedSkip Missed = "skip" // none is
)

// Schedule says when an export runs by itself: at the times of a wall clock.
type Schedule struct {
	// Cron has five fields, minute, hour, day of the month, month, day of the week, or
	// is one of @hourly, @daily, @weekly, @monthly and @yearly.
	Cron string `json:"cron"`
	// Zone is the IANA name of the clock's time zone; "" is UTC.
	Zone   string `json:"zone,omitempty"`
	Missed Missed `json:"missed,omitempty"` // "" is once
}

// clock is a schedule that was parsed.
type clock struct {
	times    cron.Schedule
	location *time.Location
}

// parse checks a schedule and fills in what it leaves out.
func (s *Schedule) parse() (*clock, error) {
	text := strings.TrimSpace(s.Cron)
	switch lower := strings.ToLower(text); {
	case strings.Contains(lower, "tz="):
		return nil, fault.Userf("schedule %q: the time zone has a place of its own", s.Cron)
	case strings.HasPrefix(lower, "@every"):
		return nil, fault.Userf("schedule %q: want times of the clock, such as */15 * * * *", s.Cron)
	}
	times, err := cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor).Parse(text)
	if err != nil {
		return nil, fault.Userf("schedule %q: %w (want minute, hour, day of the month, month, day of the week)", s.Cron, err)
	}
	zone := s.Zone
	if zone == "" {
		zone = "UTC"
	}
	if zone == "Local" {
		return nil, fault.Userf("time zone Local is another one on another machine: name it, as Europe/Berlin")
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fault.Userf("time zone %q: want an IANA name, as Europe/Berlin", s.Zone)
	}
	switch s.Missed {
	case "":
		s.Missed = MissedOnce
	case MissedOnce, MissedAll, MissedSkip:
	default:
		return nil, fault.Userf("missed times %q: want once, all or skip", s.Missed)
	}
	s.Cron, s.Zone = text, zone
	c := &clock{times, location}
	if c.next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fault.Userf("schedule %q names no time that ever comes", s.Cron)
	}
	return c, nil
}

// firing is a time of a schedule.
type firing struct{ at time.Time }

// IsZero reports whether there is none.
func (f firing) IsZero() bool { return f.at.IsZero() }

// id names a firing among those of an export, whatever becomes of its zone.
func (f firing) id() string { return f.at.UTC().Format("20060102T1504Z") }

// next returns the first firing after t. The schedule is evaluated on the wall's
// clock alone; each of its times is then placed in the zone. So a time that the clock skips
// in spring is made up for when the hour is over, and one that comes twice in autumn
// fires the first time only: cron libraries that step through instants get one of the two
// wrong.
func (c *clock) next(t time.Time) firing {
	l := t.In(c.location)
	wall := time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), l.Nanosecond(), time.UTC)
	// A skipped time lies before its wall time now: look back further than any
	// clock was ever put forward by law, a day in Samoa.
	w := wall.Add(-25 * time.Hour)
	for {
		if w = c.times.Next(w); w.IsZero() {
			return firing{}
		}
		if at := place(w, c.location); at.After(t) {
			return firing{at}
		}
	}
}

// place returns when a wall clock shows w: the first time, if it does twice; if
// it never does, as long after the gap's begin as w is.
func place(w time.Time, l *time.Location) time.Time {
	// The offsets before and after any change near w.
	_, before := w.Add(-36 * time.Hour).In(l).Zone()
	_, after := w.Add(36 * time.Hour).In(l).Zone()
	first := w.Add(-time.Duration(before) * time.Second)
	second := w.Add(-time.Duration(after) * time.Second)
	shows := func(t time.Time) bool {
		_, offset := t.In(l).Zone()
		return t.Add(time.Duration(offset) * time.Second).Equal(w)
	}
	candidates := []time.Time{first, second}
	if second.Before(first) {
		candidates = []time.Time{second, first}
	}
	for _, t := range candidates {
		if shows(t) {
			return t.In(l)
		}
	}
	// In a gap: by the clock as it was before.
	return first.In(l)
}

// String returns the schedule for people.
func (s Schedule) String() string {
	return fmt.Sprintf("%s, %s", s.Cron, s.Zone)
}

// Next returns the next n times of a schedule after t.
func (s Schedule) Next(t time.Time, n int) ([]time.Time, error) {
	c, err := s.parse()
	if err != nil {
		return nil, err
	}
	var out []time.Time
	for range n {
		f := c.next(t)
		if f.IsZero() {
			break
		}
		t = f.at
		out = append(out, t)
	}
	return out, nil
}
