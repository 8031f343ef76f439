package site

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/media"
)

func TestAnInstallerThatCannotBePreparedIsNotTriedForEverybodyWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no room")
		calls := 0
		get := remembered(func() (*media.Template, error) {
			if calls++; calls < 3 {
				return nil, broken
			}
			return new(media.Template), nil
		})
		for _, want := range []int{1, 2} {
			for range 100 {
				if _, err := get(); !errors.Is(err, broken) || calls != want {
					t.Fatalf("err = %v after %d calls, want %d", err, calls, want)
				}
			}
			time.Sleep(againAfter)
		}
		for range 100 {
			if made, err := get(); made == nil || err != nil || calls != 3 {
				t.Fatalf("%v, %v after %d calls", made, err, calls)
			}
		}
	})
}
