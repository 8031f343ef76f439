package installer

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// maxBuckets bounds how many are remembered who ask too often.
const maxBuckets = 10000

// limiter counts what each of many may do: a number at once, and so many a second after.
type limiter struct {
	burst, rate float64

	mu  sync.Mutex
	all map[string]*bucket
}

// bucket is what one has left.
type bucket struct {
	left float64
	at   time.Time
}

func newLimiter(burst, rate float64) *limiter {
	return &limiter{burst: burst, rate: rate, all: make(map[string]*bucket)}
}

// ok reports whether who has something left.
func (l *limiter) ok(who string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.all[who]
	return b == nil || l.fill(b, time.Now()) >= 1
}

// take counts one.
func (l *limiter) take(who string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	b := l.all[who]
	if b == nil {
		if len(l.all) >= maxBuckets {
			l.prune(now)
		}
		b = &bucket{left: l.burst, at: now}
		l.all[who] = b
	}
	b.left = max(0, l.fill(b, now)-1)
}

// fill adds what time has given, and returns what is left.
func (l *limiter) fill(b *bucket, now time.Time) float64 {
	b.left = min(l.burst, b.left+now.Sub(b.at).Seconds()*l.rate)
	b.at = now
	return b.left
}

// prune forgets those who have all they may have; if that is nobody, everyone: who
// floods from so many addresses is not held up by counting.
func (l *limiter) prune(now time.Time) {
	for who, b := range l.all {
		if l.fill(b, now) >= l.burst {
			delete(l.all, who)
		}
	}
	if len(l.all) >= maxBuckets {
		clear(l.all)
	}
}

// etagOf names a file's content by what changes with it.
func etagOf(st os.FileInfo) string {
	return fmt.Sprintf(`"%x-%x"`, st.Size(), st.ModTime().UnixNano())
}
