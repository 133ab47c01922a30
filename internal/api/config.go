package api

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
)

func (a *API) addConfigRoute() {
	rest.Add(a.server.Group("server"), rest.NeedAdminRead, "GET /v1/config", "get-config", "Show the configuration of the server that answers",
		func(context.Context, *rest.Call, *struct{}) (*rest.Output[view.Settings], error) {
			return &rest.Output[view.Settings]{Body: view.Settings{Data: append([]view.Setting{}, a.cfg.Settings...)}}, nil
		})
}
