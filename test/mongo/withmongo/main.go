// Command withmongo runs a command with a MongoDB replica set at hand: the one
// that SLIPWAY_TEST_MONGO_URL names, or a mongod on PATH that it starts with
// one member in a temporary folder and stops afterwards. The command finds it
// in SLIPWAY_TEST_MONGO_URL. Without either it fails.
//
//	withmongo COMMAND [ARGUMENT...]
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const variable = "SLIPWAY_TEST_MONGO_URL"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "withmongo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("no command was given")
	}
	url := os.Getenv(variable)
	if url == "" {
		started, end, err := start(ctx)
		if err != nil {
			return err
		}
		defer end()
		url = started
	}
	version, err := describe(ctx, url)
	if err != nil {
		return fmt.Errorf("cannot use %s: %w", url, err)
	}
	fmt.Printf("running on MongoDB %s at %s\n", version, url)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), variable+"="+url)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// start starts a mongod and makes it a replica set of one member.
func start(ctx context.Context) (url string, end func(), err error) {
	binary, err := exec.LookPath("mongod")
	if err != nil {
		return "", nil, fmt.Errorf("no MongoDB: put mongod on PATH, or set %s=mongodb://HOST:PORT/?replicaSet=NAME", variable)
	}
	dir, err := os.MkdirTemp("", "withmongo")
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	addr := l.Addr().(*net.TCPAddr)
	l.Close() // mongod takes no port 0
	cmd := exec.Command(binary, "--replSet", "rs0", "--dbpath", dir, "--bind_ip", "127.0.0.1",
		"--port", fmt.Sprint(addr.Port), "--logpath", filepath.Join(dir, "mongod.log"))
	if err := cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	end = func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		os.RemoveAll(dir)
	}
	if err := initiate(ctx, addr.String()); err != nil {
		end()
		return "", nil, err
	}
	return fmt.Sprintf("mongodb://%s/?replicaSet=rs0", addr), end, nil
}

// initiate makes a fresh mongod a replica set.
func initiate(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + addr + "/?directConnection=true"))
	if err != nil {
		return err
	}
	defer client.Disconnect(context.Background())
	member := bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: addr}}
	config := bson.D{{Key: "_id", Value: "rs0"}, {Key: "members", Value: bson.A{member}}}
	if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "replSetInitiate", Value: config}}).Err(); err != nil {
		return fmt.Errorf("cannot initiate the replica set: %w", err)
	}
	for {
		var hello struct {
			Primary bool `bson:"isWritablePrimary"`
		}
		if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err == nil && hello.Primary {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the replica set has no primary: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// describe returns the version of the server at url.
func describe(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(url))
	if err != nil {
		return "", err
	}
	defer client.Disconnect(context.Background())
	var info struct {
		Version string `bson:"version"`
		Git     string `bson:"gitVersion"`
	}
	err = client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&info)
	return info.Version + " (" + info.Git + ")", err
}
