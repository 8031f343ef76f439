package installs_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/installs"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	const none = `{"results":[{}]}`
	tr := &apitest.Transcript{Replies: map[string]string{
		"Installs.Show":   `{"results":[{"result":{"phase":"failed","message":"m","boots":[{"number":3,"purpose":"install","phase":"failed"}]}}]}`,
		"Installs.Log":    `{"boot":3,"lines":["a","b"],"next":2,"ended":true,"newest":3,"message":"m"}`,
		"Installs.Status": `{"statuses":[{"host":"u","purpose":"install","phase":"running","number":1,"tries":1,"iso":"https://x/secret"}]}`,
		"Installs.Start":  `{"results":[{"error":{"message":"image with neither checksum nor signature not valid","code":"bad request"}}]}`,
		"Installs.Mark":   none, "Installs.Renew": none,
		"Installs.Cancel": `{"results":[{"error":{"message":"lease","code":"lease claim denied"}}]}`,
	}}
	c, ctx := installs.New(tr), t.Context()
	report, err := c.Show(ctx, "rack1-u7")
	tr.Note("%+v, %v", report.Boots[0], err)
	log, err := c.Log(ctx, params.InstallLogQuery{Name: "rack1-u7", Boot: 3, After: 1, Wait: true})
	tr.Note("%+v, %v", log, err)
	all, err := c.Status(ctx, []string{"u", "v"})
	tr.Note("%s %s %v, %v", all[0].Host, all[0].Phase, all[0].ISO, err)
	_, err = c.Start(ctx, params.InstallOrder{Purpose: "install", Host: "u", Name: "rack1-u7", Image: []byte(`{"url":"x"}`), UserData: "secret"})
	if !errors.Is(err, errors.BadRequest) {
		t.Errorf("Start = %v, want BadRequest", err)
	}
	tr.Note("%v", c.Mark(ctx, "u", "booted"))
	tr.Note("%v", c.Renew(ctx, params.InstallRenewal{Host: "u", Number: 1, Reason: "silent"}))
	tr.Note("%v", c.Cancel(ctx, "u"))
	golden.Check(t, "transcript.golden", tr.String())
}

func TestAnAnswerWithoutAResultIsAnError(t *testing.T) {
	for _, reply := range []string{`{"results":[{}]}`, `{"results":[]}`, `!unauthorized access: permission denied`} {
		tr := &apitest.Transcript{Replies: map[string]string{"Installs.Show": reply, "Installs.Start": reply}}
		c := installs.New(tr)
		if _, err := c.Show(t.Context(), "a"); err == nil {
			t.Errorf("Show: no error for %s", reply)
		}
		if _, err := c.Start(t.Context(), params.InstallOrder{}); err == nil {
			t.Errorf("Start: no error for %s", reply)
		}
	}
}
