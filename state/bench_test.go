package state_test

import (
	"slices"
	"testing"

	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/watcher"
)

// benchModel returns a model with n provisioned, started machines on the embedded
// store.
func benchModel(b *testing.B, n int) (*statetest.Site, []*state.Machine) {
	b.Helper()
	site := statetest.Open(b)
	specs := slices.Repeat([]state.MachineSpec{{Series: "jammy", Jobs: units(), InstanceID: "i-1", Nonce: "n"}}, n)
	results, err := site.Default.Machines().Add(ctx, specs)
	if err != nil {
		b.Fatal(err)
	}
	ms := make([]*state.Machine, n)
	for i, r := range results {
		if r.Err != nil {
			b.Fatal(r.Err)
		}
		ms[i] = r.Machine
	}
	return site, ms
}

func BenchmarkFindEntity(b *testing.B) {
	site, ms := benchModel(b, 1000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := site.Default.FindEntity(ctx, ms[i%len(ms)].Tag()); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkFindEntities1000(b *testing.B) {
	site, ms := benchModel(b, 1000)
	var tags []tag.Tag
	for _, m := range ms {
		tags = append(tags, m.Tag())
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := site.Default.FindEntities(ctx, tags); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAll10000(b *testing.B) {
	site, _ := benchModel(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := site.Default.Machines().All(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAdd1000(b *testing.B) {
	site := statetest.Open(b)
	specs := slices.Repeat([]state.MachineSpec{{Series: "jammy", Jobs: units()}}, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := site.Default.Machines().Add(ctx, specs); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSetStatus(b *testing.B) {
	_, ms := benchModel(b, 1000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := ms[i%len(ms)].SetStatus(ctx, status.Info{Status: status.Started}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkFanOut10000 tells 10,000 watchers of one machine of a change.
func BenchmarkFanOut10000(b *testing.B) {
	_, ms := benchModel(b, 1)
	ws := make([]watcher.NotifyWatcher, 10_000)
	for i := range ws {
		w, err := ms[0].WatchParts(ctx, state.StatusPart)
		if err != nil {
			b.Fatal(err)
		}
		<-w.Changes()
		ws[i] = w
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		info := status.Info{Status: status.Started, Message: string(rune('a' + n%20))}
		if err := ms[0].SetStatus(ctx, info); err != nil {
			b.Fatal(err)
		}
		for _, w := range ws {
			<-w.Changes()
		}
	}
	b.StopTimer()
	for _, w := range ws {
		w.Kill()
	}
}
