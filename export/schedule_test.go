package export

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skepdb/skep/internal/fault"
)

// Days on which clocks change. In Berlin 02:00 becomes 03:00 on 2026-03-29 and 03:00 becomes 02:00 on
// 2026-10-25; in Lord Howe the step is half an hour; Samoa left out 2011-12-30.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		cron, zone, from string
		want             string
	}{
		{"30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", "28 02:30+01 29 03:30+02 30 02:30+02"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T01:10:00Z", "29 03:30+02 30 02:30+02"}, // made within the hour after the gap
		{"30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "29 03:30+02 30 02:30+02 30 03:30+02"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-23T12:00:00Z", "24 02:30+02 25 02:30+02 26 02:30+01"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:45:00Z", "26 02:30+01"}, // between the two half past two
		{"0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", "25 02:00+02 25 03:00+01 25 04:00+01"},
		{"0 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", "29 03:00+02 29 04:00+02"},
		{"30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "01 01:30-04 02 01:30-05"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "04 02:45+11 05 02:15+11"},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-03T20:00:00Z", "05 01:45+11 06 01:45+1030"},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", "29 12:00-10 31 12:00+14"},
		{"0 3 * * 1", "UTC", "2026-12-01T00:00:00Z", "07 03:00Z 14 03:00Z"},
		{"0 0 29 2 *", "UTC", "2026-12-01T00:00:00Z", "29 00:00Z"},
		{"@daily", "Asia/Kolkata", "2026-12-01T00:00:00Z", "02 00:00+0530"},
	} {
		s := Schedule{Cron: c.cron, Zone: c.zone}
		from, err := time.Parse(time.RFC3339, c.from)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Fields(c.want)
		times, err := s.Next(from, len(want)/2)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range times {
			zone := strings.TrimSuffix(x.Format("-0700"), "00")
			if x.Location().String() == "UTC" {
				zone = "Z"
			}
			got = append(got, x.Format("02 15:04")+zone)
		}
		if fmt.Sprint(got) != fmt.Sprint(pairs(want)) {
			t.Errorf("%s in %s from %s: %v, want %v", c.cron, c.zone, c.from, got, pairs(want))
		}
	}
}

func pairs(words []string) (out []string) {
	for i := 0; i+1 < len(words); i += 2 {
		out = append(out, words[i]+" "+words[i+1])
	}
	return out
}

func TestScheduleRefuses(t *testing.T) {
	for _, s := range []Schedule{{Cron: ""}, {Cron: "61 * * * *"}, {Cron: "* * * *"}, {Cron: "@every 5m"}, {Cron: "CRON_TZ=UTC 0 0 * * *"},
		{Cron: "TZ=UTC 0 0 * * *"}, {Cron: "0 0 30 2 *"}, {Cron: "0 0 * * *", Zone: "Mars/Base"}, {Cron: "0 0 * * *", Zone: "Local"}, {Cron: "0 0 * * *", Missed: "maybe"}} {
		if _, err := s.parse(); fault.ClassOf(err) != fault.User {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
