package mongo_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

// official connects the official driver to a fresh double.
func official(t *testing.T, c mongotest.Config) (*mongotest.Server, *mongo.Client) {
	t.Helper()
	server, err := mongotest.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server, connect(t, server)
}

func connect(t *testing.T, server *mongotest.Server) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(server.URL("test")).
		SetWriteConcern(writeconcern.Majority()).SetReadConcern(readconcern.Majority()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	return client
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDocumentsIndexesAndCursors(t *testing.T) {
	for _, version := range []int{9, 13, 21, 25, 27} {
		t.Run(fmt.Sprintf("wire version %d", version), func(t *testing.T) {
			_, client := official(t, mongotest.Config{Members: 3, WireVersion: version})
			ctx := deadline(t)
			c := client.Database("test").Collection("things")
			var docs []any
			for i := range 500 {
				docs = append(docs, bson.D{{Key: "_id", Value: fmt.Sprintf("%03d", i)}, {Key: "n", Value: i}, {Key: "tags", Value: bson.A{"even", "odd"}[i%2 : i%2+1]}})
			}
			_, err := c.InsertMany(ctx, docs)
			check(t, err)
			_, err = c.InsertOne(ctx, docs[0])
			if !mongo.IsDuplicateKeyError(err) {
				t.Errorf("InsertOne of a duplicate = %v", err)
			}
			_, err = c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "tags", Value: 1}}})
			check(t, err)
			specs, err := c.Indexes().ListSpecifications(ctx)
			if err != nil || len(specs) != 2 {
				t.Errorf("indexes = %v, %v, want 2", specs, err)
			}
			count, err := c.CountDocuments(ctx, bson.D{{Key: "tags", Value: "odd"}})
			if err != nil || count != 250 {
				t.Errorf("CountDocuments = %d, %v, want 250", count, err)
			}
			cur, err := c.Find(ctx, bson.D{{Key: "n", Value: bson.D{{Key: "$gte", Value: 100}, {Key: "$lt", Value: 400}}}},
				options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetBatchSize(7).SetProjection(bson.D{{Key: "n", Value: 1}}))
			check(t, err)
			var all []struct {
				ID   string `bson:"_id"`
				N    int
				Tags []string
			}
			check(t, cur.All(ctx, &all))
			if len(all) != 300 || all[0].ID != "399" || all[0].N != 399 || all[0].Tags != nil {
				t.Errorf("Find = %d documents, the first %+v", len(all), all[0])
			}
			res, err := c.UpdateOne(ctx, bson.D{{Key: "_id", Value: "new"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: 1}}}}, options.UpdateOne().SetUpsert(true))
			if err != nil || res.UpsertedID != "new" {
				t.Errorf("upsert = %+v, %v", res, err)
			}
			var after bson.M
			err = c.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: "new"}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 5}}}},
				options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&after)
			if err != nil || after["n"] != int32(6) {
				t.Errorf("FindOneAndUpdate = %v, %v, want 6", after, err)
			}
			del, err := c.DeleteMany(ctx, bson.D{{Key: "tags", Value: "even"}})
			if err != nil || del.DeletedCount != 250 {
				t.Errorf("DeleteMany = %+v, %v", del, err)
			}
			names, err := client.Database("test").ListCollectionNames(ctx, bson.D{})
			if err != nil || len(names) != 1 || names[0] != "things" {
				t.Errorf("collections = %v, %v", names, err)
			}
			check(t, client.Database("test").Drop(ctx))
		})
	}
}

func TestTransactions(t *testing.T) {
	_, client := official(t, mongotest.Config{Members: 2})
	ctx := deadline(t)
	c := client.Database("test").Collection("things")
	_, err := c.InsertMany(ctx, []any{bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 0}}, bson.D{{Key: "_id", Value: "b"}, {Key: "n", Value: 0}}})
	check(t, err)
	inc := bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}
	n := func(ctx context.Context, id string) int32 {
		t.Helper()
		var d struct{ N int32 }
		check(t, c.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Decode(&d))
		return d.N
	}

	one, err := client.StartSession()
	check(t, err)
	defer one.EndSession(ctx)
	two, err := client.StartSession()
	check(t, err)
	defer two.EndSession(ctx)
	first, second := mongo.NewSessionContext(ctx, one), mongo.NewSessionContext(ctx, two)

	// Isolation: neither others nor an older snapshot see what is not committed.
	check(t, one.StartTransaction())
	check(t, two.StartTransaction())
	if n(second, "a") != 0 {
		t.Error("a fresh document is not at 0")
	}
	_, err = c.UpdateByID(first, "a", inc)
	check(t, err)
	if n(first, "a") != 1 || n(second, "a") != 0 || n(ctx, "a") != 0 {
		t.Errorf("a is at %d inside, %d in another transaction, %d outside; want 1, 0, 0", n(first, "a"), n(second, "a"), n(ctx, "a"))
	}
	check(t, one.CommitTransaction(first))
	check(t, one.CommitTransaction(first)) // again, as after a lost answer
	if n(second, "a") != 0 || n(ctx, "a") != 1 {
		t.Errorf("after the commit a is at %d in the older snapshot, %d outside; want 0, 1", n(second, "a"), n(ctx, "a"))
	}

	// A write to what has changed since the snapshot conflicts.
	_, err = c.UpdateByID(second, "a", inc)
	if se, ok := err.(mongo.ServerError); !ok || !se.HasErrorCode(112) || !se.HasErrorLabel("TransientTransactionError") {
		t.Errorf("write over a newer version = %v, want a transient write conflict", err)
	}
	err = two.CommitTransaction(second)
	if se, ok := err.(mongo.ServerError); !ok || !se.HasErrorCode(251) || !se.HasErrorLabel("TransientTransactionError") {
		t.Errorf("commit of an aborted transaction = %v, want a transient one of code 251", err)
	}

	// Two writers at once: the second one loses.
	check(t, one.StartTransaction())
	check(t, two.StartTransaction())
	_, err = c.UpdateByID(first, "b", inc)
	check(t, err)
	_, err = c.UpdateByID(second, "b", inc)
	if se, ok := err.(mongo.ServerError); !ok || !se.HasErrorLabel("TransientTransactionError") {
		t.Errorf("second writer = %v, want a transient error", err)
	}
	check(t, one.AbortTransaction(first))
	if n(ctx, "b") != 0 {
		t.Errorf("b is at %d after an abort, want 0", n(ctx, "b"))
	}

	// A write outside transactions waits for one.
	check(t, one.StartTransaction())
	_, err = c.UpdateByID(first, "b", inc)
	check(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := c.UpdateByID(ctx, "b", inc)
		done <- err
	}()
	check(t, one.CommitTransaction(first))
	check(t, <-done)
	if n(ctx, "b") != 2 {
		t.Errorf("b is at %d, want 2", n(ctx, "b"))
	}

	// A duplicate key ends a transaction.
	check(t, one.StartTransaction())
	_, err = c.InsertOne(first, bson.D{{Key: "_id", Value: "a"}})
	if !mongo.IsDuplicateKeyError(err) {
		t.Errorf("duplicate in a transaction = %v", err)
	}
	if err := one.CommitTransaction(first); err == nil {
		t.Error("a transaction with a duplicate key was committed")
	}
}

// TestTransactionsSurviveFaults lets the driver's own retries, which follow the
// labels, deal with what the double does.
func TestTransactionsSurviveFaults(t *testing.T) {
	for name, fault := range map[string]mongotest.Fault{
		"election in the middle": {Command: "update", Effect: mongotest.StepDown},
		"cut in the middle":      {Command: "update", Effect: mongotest.CutAfter},
		"election at the commit": {Command: "commitTransaction", Effect: mongotest.StepDown},
		"cut before the commit":  {Command: "commitTransaction", Effect: mongotest.CutBefore},
		"cut after the commit":   {Command: "commitTransaction", Effect: mongotest.CutAfter},
		"shutdown at the commit": {Command: "commitTransaction", Effect: mongotest.Fail, Code: 91},
		"a write conflict":       {Command: "update", Effect: mongotest.Fail, Code: 112, Times: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := official(t, mongotest.Config{Members: 3})
			ctx := deadline(t)
			c := client.Database("test").Collection("things")
			_, err := c.InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 0}})
			check(t, err)
			sess, err := client.StartSession()
			check(t, err)
			defer sess.EndSession(ctx)
			server.Inject(fault)
			_, err = sess.WithTransaction(ctx, func(ctx context.Context) (any, error) {
				if _, err := c.InsertOne(ctx, bson.D{{Key: "_id", Value: "b"}}); err != nil {
					return nil, err
				}
				return c.UpdateByID(ctx, "a", bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
			})
			check(t, err)
			var a struct{ N int }
			check(t, c.FindOne(ctx, bson.D{{Key: "_id", Value: "a"}}).Decode(&a))
			if a.N != 1 || server.Pending() != 0 {
				t.Errorf("a is at %d with %d faults to come, want 1 and 0", a.N, server.Pending())
			}
		})
	}
}

func TestRetryableWritesRunOnce(t *testing.T) {
	for name, fault := range map[string]mongotest.Fault{
		"cut before": {Command: "update", Effect: mongotest.CutBefore},
		"cut after":  {Command: "update", Effect: mongotest.CutAfter},
		"election":   {Command: "update", Effect: mongotest.StepDown},
		"shutdown":   {Command: "update", Effect: mongotest.Fail, Code: 91},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := official(t, mongotest.Config{Members: 3})
			ctx := deadline(t)
			c := client.Database("test").Collection("things")
			_, err := c.InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 0}})
			check(t, err)
			server.Inject(fault)
			res, err := c.UpdateByID(ctx, "a", bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
			if err != nil || res.ModifiedCount != 1 {
				t.Fatalf("UpdateByID = %+v, %v", res, err)
			}
			var a struct{ N int }
			check(t, c.FindOne(ctx, bson.D{{Key: "_id", Value: "a"}}).Decode(&a))
			if a.N != 1 {
				t.Errorf("a is at %d, want 1", a.N)
			}
		})
	}
}

// change is an event of a change stream.
type change struct {
	OperationType string `bson:"operationType"`
	FullDocument  bson.M `bson:"fullDocument"`
	DocumentKey   struct {
		ID string `bson:"_id"`
	} `bson:"documentKey"`
	UpdateDescription struct {
		UpdatedFields bson.M `bson:"updatedFields"`
	} `bson:"updateDescription"`
}

func next(t *testing.T, ctx context.Context, cs *mongo.ChangeStream) change {
	t.Helper()
	if !cs.Next(ctx) {
		t.Fatalf("no change: %v", cs.Err())
	}
	var c change
	check(t, cs.Decode(&c))
	return c
}

func TestChangeStreams(t *testing.T) {
	server, client := official(t, mongotest.Config{Members: 3})
	ctx := deadline(t)
	db := client.Database("test")
	c := db.Collection("things")
	cs, err := db.Watch(ctx, mongo.Pipeline{{{Key: "$match", Value: bson.D{{Key: "ns.coll", Value: "things"}}}}})
	check(t, err)
	defer cs.Close(ctx)
	_, err = c.InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 1}})
	check(t, err)
	_, err = db.Collection("others").InsertOne(ctx, bson.D{{Key: "_id", Value: "x"}})
	check(t, err)
	_, err = c.UpdateByID(ctx, "a", bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: 2}}}})
	check(t, err)
	_, err = c.ReplaceOne(ctx, bson.D{{Key: "_id", Value: "a"}}, bson.D{{Key: "n", Value: 3}})
	check(t, err)
	_, err = c.DeleteOne(ctx, bson.D{{Key: "_id", Value: "a"}})
	check(t, err)
	insert := next(t, ctx, cs)
	if insert.OperationType != "insert" || insert.DocumentKey.ID != "a" || insert.FullDocument["n"] != int32(1) {
		t.Errorf("first change = %+v", insert)
	}
	token := cs.ResumeToken()
	update := next(t, ctx, cs)
	if update.OperationType != "update" || update.UpdateDescription.UpdatedFields["n"] != int32(2) {
		t.Errorf("second change = %+v", update)
	}
	replace := next(t, ctx, cs)
	if replace.OperationType != "replace" || replace.FullDocument["n"] != int32(3) {
		t.Errorf("third change = %+v", replace)
	}
	if del := next(t, ctx, cs); del.OperationType != "delete" || del.FullDocument != nil {
		t.Errorf("fourth change = %+v", del)
	}

	// Resumed after the first.
	again, err := db.Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetResumeAfter(token))
	check(t, err)
	defer again.Close(ctx)
	for _, want := range []string{"insert", "update", "replace", "delete"} { // the insert is of "others"
		if got := next(t, ctx, again); got.OperationType != want {
			t.Errorf("resumed: %+v, want %s", got, want)
		}
	}

	// A transaction's changes come with its commit, and a stream lives on
	// through a cut, a lost cursor and an election.
	sess, err := client.StartSession()
	check(t, err)
	defer sess.EndSession(ctx)
	_, err = sess.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		for _, id := range []string{"t1", "t2"} {
			if _, err := c.InsertOne(ctx, bson.D{{Key: "_id", Value: id}}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	check(t, err)
	for i, harm := range []func(){server.CutConnections, server.DropCursors, server.StepDown} {
		harm()
		_, err = c.InsertOne(ctx, bson.D{{Key: "_id", Value: fmt.Sprintf("h%d", i)}})
		check(t, err)
	}
	for _, want := range []string{"t1", "t2", "h0", "h1", "h2"} {
		if got := next(t, ctx, cs); got.DocumentKey.ID != want {
			t.Errorf("change of %s, want %s", got.DocumentKey.ID, want)
		}
	}

	// History that is gone is reported, not skipped.
	server.DropHistory()
	lost, err := db.Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetResumeAfter(token))
	if err == nil {
		lost.Next(ctx)
		err = lost.Err()
		lost.Close(ctx)
	}
	if se, ok := err.(mongo.ServerError); !ok || !se.HasErrorCode(286) {
		t.Errorf("resuming without history = %v, want code 286", err)
	}
}

func TestSnapshotReads(t *testing.T) {
	_, client := official(t, mongotest.Config{})
	ctx := deadline(t)
	c := client.Database("test").Collection("things")
	_, err := c.InsertOne(ctx, bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 0}})
	check(t, err)
	sess, err := client.StartSession(options.Session().SetSnapshot(true))
	check(t, err)
	defer sess.EndSession(ctx)
	sctx := mongo.NewSessionContext(ctx, sess)
	var d struct{ N int }
	check(t, c.FindOne(sctx, bson.D{{Key: "_id", Value: "a"}}).Decode(&d)) // fixes the time
	_, err = c.UpdateByID(ctx, "a", bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
	check(t, err)
	check(t, c.FindOne(sctx, bson.D{{Key: "_id", Value: "a"}}).Decode(&d))
	if d.N != 0 {
		t.Errorf("a snapshot session reads %d, want 0", d.N)
	}
}

func TestLogin(t *testing.T) {
	server, err := mongotest.Start(mongotest.Config{Users: map[string]string{"ada": "lovelace"}})
	check(t, err)
	defer server.Close()
	for password, want := range map[string]string{"lovelace": "", "byron": "auth"} {
		client, err := mongo.Connect(options.Client().ApplyURI(server.URL("test")).SetServerSelectionTimeout(time.Minute).
			SetAuth(options.Credential{Username: "ada", Password: password}))
		check(t, err)
		_, err = client.Database("test").Collection("things").CountDocuments(deadline(t), bson.D{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with password %s: %v", password, err)
		}
		client.Disconnect(context.Background())
	}
	anonymous := connect(t, server)
	_, err = anonymous.Database("test").Collection("things").InsertOne(deadline(t), bson.D{{Key: "_id", Value: "a"}})
	if se, ok := err.(mongo.ServerError); !ok || !se.HasErrorCode(13) {
		t.Errorf("without logging in: %v, want code 13", err)
	}
}
