// Package agent is the facade Agent, version 2: what every agent asks of its own
// entity right after its login.
package agent

import (
	"context"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
)

// entity is what is told of an agent's entity.
type entity interface {
	Life() life.Value
	Jobs() []job.Job
	ContainerType() container.Type
}

// Agent is the facade of one connection.
type Agent struct {
	*common.PasswordChanger

	entities common.Bulk[entity]
}

// New returns the facade of a connection, or ErrPerm if no agent is there.
func New(st *state.State, c common.Connection) (*Agent, error) { return newAgent(st, c) }

func newAgent(f common.EntityFinder, c common.Connection) (*Agent, error) {
	if !c.Auth.AuthMachineAgent() {
		return nil, common.ErrPerm
	}
	own := common.AuthSelf(c.Auth)
	return &Agent{
		PasswordChanger: common.NewPasswordChanger(common.Entities[common.PasswordSetter](f, "passwords"), own),
		entities:        common.Bulk[entity]{Get: common.Entities[entity](f, "agents"), Can: own, Parse: common.ParseAny},
	}, nil
}

// GetEntities returns the life, the jobs and the container type of entities.
func (a *Agent) GetEntities(ctx context.Context, args params.Entities) (params.AgentGetEntitiesResults, error) {
	results := make([]params.AgentEntity, len(args.Entities))
	err := a.entities.Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, e entity) error {
		results[i].Life, results[i].ContainerType = string(e.Life()), string(e.ContainerType())
		for _, j := range e.Jobs() {
			results[i].Jobs = append(results[i].Jobs, string(j))
		}
		return nil
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.AgentGetEntitiesResults{Entities: results}, err
}

// ClearReboot is called by agents that have begun to run, which ends any wish that their
// machines be restarted. There are no such wishes here.
func (a *Agent) ClearReboot(ctx context.Context, args params.Entities) (params.ErrorResults, error) {
	results := make([]params.ErrorResult, len(args.Entities))
	err := a.entities.Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(int, entity) error { return nil },
		func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}
