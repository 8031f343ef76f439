package params

import "time"

// Model names a model.
type Model struct {
	Name     string `json:"name"`
	UUID     string `json:"uuid"`
	Type     string `json:"type,omitempty"`
	OwnerTag string `json:"owner-tag"`
}

// UserModel is a model that a user may see; LastConnection is null if the user
// has never been there.
type UserModel struct {
	Model          Model      `json:"model"`
	LastConnection *time.Time `json:"last-connection"`
}

// UserModelList is the result of ModelManager.ListModels, whose parameter is
// the user's Entity.
type UserModelList struct {
	UserModels []UserModel `json:"user-models"`
}

// ModelCreateArgs are the parameters of ModelManager.CreateModel, whose result
// is a ModelInfo.
type ModelCreateArgs struct {
	Name          string         `json:"name"`
	OwnerTag      string         `json:"owner-tag"`
	Config        map[string]any `json:"config,omitempty"`
	CloudTag      string         `json:"cloud-tag,omitempty"`
	CloudRegion   string         `json:"region,omitempty"`
	CredentialTag string         `json:"credential,omitempty"`
}

// EntityStatus is a status without a tag.
type EntityStatus struct {
	Status string         `json:"status"`
	Info   string         `json:"info"`
	Data   map[string]any `json:"data,omitempty"`
	Since  *time.Time     `json:"since"`
}

// ModelInfo describes a model. It is the result of Client.ModelInfo and of
// ModelManager.CreateModel.
type ModelInfo struct {
	Name           string             `json:"name"`
	UUID           string             `json:"uuid"`
	ControllerUUID string             `json:"controller-uuid"`
	IsController   bool               `json:"is-controller"`
	ProviderType   string             `json:"provider-type,omitempty"`
	DefaultSeries  string             `json:"default-series,omitempty"`
	CloudTag       string             `json:"cloud-tag"`
	CloudRegion    string             `json:"cloud-region,omitempty"`
	OwnerTag       string             `json:"owner-tag"`
	Life           string             `json:"life"`
	Status         EntityStatus       `json:"status"`
	Users          []ModelUserInfo    `json:"users"`
	Machines       []ModelMachineInfo `json:"machines"`
}

// ModelInfoResult holds a model's description, or an error.
type ModelInfoResult struct {
	Error  *Error     `json:"error,omitempty"`
	Result *ModelInfo `json:"result,omitempty"`
}

// ModelInfoResults are the results of ModelManager.ModelInfo.
type ModelInfoResults struct {
	Results []ModelInfoResult `json:"results"`
}

// ModelUserInfo says what a user may do in a model.
type ModelUserInfo struct {
	UserName       string     `json:"user"`
	DisplayName    string     `json:"display-name"`
	LastConnection *time.Time `json:"last-connection"`
	Access         string     `json:"access"` // read, write, admin
}

// ModelMachineInfo is the least there is to say of a machine.
type ModelMachineInfo struct {
	ID         string `json:"id"`
	InstanceID string `json:"instance-id,omitempty"`
	Status     string `json:"status,omitempty"`
	HasVote    bool   `json:"has-vote,omitempty"`
	WantsVote  bool   `json:"wants-vote,omitempty"`
}

// The actions of ModifyModelAccess and ModifyControllerAccess.
const (
	GrantAccess  = "grant"
	RevokeAccess = "revoke"
)

// ModifyModelAccess gives a user access to a model, or takes it.
type ModifyModelAccess struct {
	UserTag  string `json:"user-tag"`
	Action   string `json:"action"` // grant or revoke
	Access   string `json:"access"` // read, write, admin
	ModelTag string `json:"model-tag"`
}

// ModifyModelAccessRequest are the parameters of ModelManager.ModifyModelAccess.
type ModifyModelAccessRequest struct {
	Changes []ModifyModelAccess `json:"changes"`
}

// ModifyControllerAccess gives a user access to the controller, or takes it.
type ModifyControllerAccess struct {
	UserTag string `json:"user-tag"`
	Action  string `json:"action"` // grant or revoke
	Access  string `json:"access"` // login, add-model, superuser
}

// ModifyControllerAccessRequest are the parameters of
// Controller.ModifyControllerAccess.
type ModifyControllerAccessRequest struct {
	Changes []ModifyControllerAccess `json:"changes"`
}
