package installer

// The limiter has no exported name, so its test is inside.

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// count takes until there is nothing left, n times at most, and returns how often there was.
func count(l *limiter, who string, n int) int {
	for i := range n {
		if !l.ok(who) {
			return i
		}
		l.take(who)
	}
	return n
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(200, 50)
		got := []int{count(l, "h1", 1000)}
		got = append(got, count(l, "h2", 10)) // another one is not held up
		time.Sleep(time.Second)               // the fake clock's
		got = append(got, count(l, "h1", 1000))
		time.Sleep(time.Hour)
		got = append(got, count(l, "h1", 1000))
		if fmt.Sprint(got) != "[200 10 50 200]" {
			t.Errorf("at once, of another, after a second, after an hour: %v", got)
		}
	})
}

func TestLimiterRemembersABoundedNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(2, 1)
		for i := range 3 * maxBuckets {
			l.take(fmt.Sprint(i))
		}
		if len(l.all) > maxBuckets {
			t.Errorf("%d are remembered, want %d at most", len(l.all), maxBuckets)
		}
		l.take("guesser")
		time.Sleep(time.Minute) // all others have everything again
		for i := range maxBuckets {
			l.take(fmt.Sprint("new", i))
		}
		if len(l.all) > maxBuckets {
			t.Errorf("%d are remembered later, want %d at most", len(l.all), maxBuckets)
		}
	})
}
