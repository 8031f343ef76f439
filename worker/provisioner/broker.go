package provisioner

import (
	"context"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/environs"
)

// Broker is what a provisioner needs of the place where instances run;
// environs.Environ satisfies it, and says what each method promises.
type Broker interface {
	StartInstance(ctx context.Context, p environs.StartInstanceParams) (environs.StartInstanceResult, error)
	StopInstances(ctx context.Context, ids []instance.ID) ([]error, error)
	AllInstances(ctx context.Context) ([]environs.Instance, error)
}

var _ Broker = environs.Environ(nil)
