package machinemanager_test

import (
	"testing"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/machinemanager"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{"MachineManager.AddMachines": `{"machines":[{"machine":"3"}]}`}}
	added, err := machinemanager.New(tr).AddMachines(t.Context(),
		params.AddMachineParams{Jobs: []string{"JobHostUnits"}, Disks: []params.Disk{{Pool: "p", Size: 1024, Count: 2}}})
	tr.Note("%v, %v", added, err)
	golden.Check(t, "transcript.golden", tr.String())
}
