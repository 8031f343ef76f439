package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout bounds how long the shell is kept waiting.
const completionTimeout = 2 * time.Second

// completionContext returns the context of a completion, which ends soon.
func completionContext(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	return context.WithTimeout(parent, completionTimeout)
}

// completeMachines offers the ids of the model's machines.
func (a *app) completeMachines(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := completionContext(cmd)
	defer cancel()
	view, err := a.status(ctx, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []cobra.Completion
	each(view.Machines, func(id string, m *machineView) {
		if !slices.Contains(args, id) {
			ids = append(ids, cobra.CompletionWithDesc(id, stateOf(m)))
		}
	})
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// completeModels offers the models that the store knows.
func (a *app) completeModels(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	s, err := a.site()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(s.models.Models)), cobra.ShellCompDirectiveNoFileComp
}
