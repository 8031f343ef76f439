package mongotest

import (
	"github.com/slipway-project/slipway/store/mongo/bson"
)

// stage is one step of a pipeline.
type stage func([]bson.D) ([]bson.D, *cmdError)

// stages compiles a pipeline. It refuses stages that it does not know.
func stages(list bson.A) ([]stage, *cmdError) {
	var out []stage
	for _, v := range list {
		d, _ := v.(bson.D)
		if len(d) != 1 {
			return nil, failf(codeFailedToParse, "a pipeline stage must have exactly one field")
		}
		st, err := compileStage(d[0])
		if err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	return out, nil
}

func compileStage(e bson.E) (stage, *cmdError) {
	spec, _ := e.V.(bson.D)
	n, _ := bson.Integer(e.V)
	switch e.K {
	case "$match":
		m, err := compile(spec)
		return func(in []bson.D) (out []bson.D, _ *cmdError) {
			for _, d := range in {
				if m(d) {
					out = append(out, d)
				}
			}
			return out, nil
		}, err
	case "$project":
		return func(in []bson.D) (out []bson.D, _ *cmdError) {
			for _, d := range in {
				p, err := project(d, spec)
				if err != nil {
					return nil, err
				}
				out = append(out, p)
			}
			return out, nil
		}, nil
	case "$sort":
		return func(in []bson.D) ([]bson.D, *cmdError) { return in, sortDocs(in, spec) }, nil
	case "$skip":
		return func(in []bson.D) ([]bson.D, *cmdError) { return in[min(int(n), len(in)):], nil }, nil
	case "$limit":
		return func(in []bson.D) ([]bson.D, *cmdError) { return in[:min(int(n), len(in))], nil }, nil
	case "$group": // only as clients count documents
		id, _ := spec.Get("_id")
		if len(spec) != 2 || bson.Compare(spec[1].V, bson.New("$sum", int32(1))) != 0 {
			return nil, failf(codeNotImplemented, "the double's $group only counts")
		}
		return func(in []bson.D) ([]bson.D, *cmdError) {
			if len(in) == 0 {
				return nil, nil
			}
			return []bson.D{bson.New("_id", id, spec[1].K, int32(len(in)))}, nil
		}, nil
	}
	return nil, failf(codeNotImplemented, "the double knows no stage %s", e.K)
}

func aggregate(c *call) (bson.D, *cmdError) {
	ns := c.db + ".$cmd.aggregate" // aggregate: 1 means the whole database
	if _, ok := c.cmd[0].V.(string); ok {
		var err *cmdError
		if ns, err = c.namespace(); err != nil {
			return nil, err
		}
	}
	list, _ := get(c.cmd, "pipeline").(bson.A)
	if len(list) > 0 {
		if first, _ := list[0].(bson.D); len(first) == 1 && first[0].K == "$changeStream" {
			if c.server.config.Standalone {
				return nil, failf(40573, "The $changeStream stage is only supported on replica sets")
			}
			sts, err := stages(list[1:])
			if err != nil {
				return nil, err
			}
			spec, _ := first[0].V.(bson.D)
			return c.openStream(ns, spec, sts)
		}
	}
	sts, err := stages(list)
	if err != nil {
		return nil, err
	}
	seq, _, err := c.snapshotOf()
	if err != nil {
		return nil, err
	}
	hits, err := c.query(c.e.coll(ns, false), nil, seq, 0)
	if err != nil {
		return nil, err
	}
	docs := make([]bson.D, len(hits))
	for i, h := range hits {
		docs[i] = h.ver.doc
	}
	for _, st := range sts {
		if docs, err = st(docs); err != nil {
			return nil, err
		}
	}
	raws := make([]bson.Raw, len(docs))
	for i, d := range docs {
		raws[i] = bson.Marshal(d)
	}
	return c.open(ns, raws), nil
}
