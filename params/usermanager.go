package params

import "time"

// AddUser describes a user to add. Without a password the user cannot log in
// until one is set.
type AddUser struct {
	UserName    string `json:"username"`
	DisplayName string `json:"display-name"`
	Password    Secret `json:"password,omitempty"`
}

// AddUsers are the parameters of UserManager.AddUser.
type AddUsers struct {
	Users []AddUser `json:"users"`
}

// AddUserResult holds the tag of a new user.
type AddUserResult struct {
	Tag       string `json:"tag,omitempty"`
	SecretKey []byte `json:"secret-key,omitempty"` // with which a user without a password could register; not used here
	Error     *Error `json:"error,omitempty"`
}

// AddUserResults are the results of UserManager.AddUser.
type AddUserResults struct {
	Results []AddUserResult `json:"results"`
}

// UserInfoRequest are the parameters of UserManager.UserInfo. No entities means
// all users.
type UserInfoRequest struct {
	Entities        []Entity `json:"entities"`
	IncludeDisabled bool     `json:"include-disabled"`
}

// UserInfo describes a user.
type UserInfo struct {
	UserName       string     `json:"username"`
	DisplayName    string     `json:"display-name"`
	Access         string     `json:"access"` // login, add-model, superuser
	CreatedBy      string     `json:"created-by"`
	DateCreated    time.Time  `json:"date-created"`
	LastConnection *time.Time `json:"last-connection,omitempty"`
	Disabled       bool       `json:"disabled"`
}

// UserInfoResult holds a user's description, or an error.
type UserInfoResult struct {
	Result *UserInfo `json:"result,omitempty"`
	Error  *Error    `json:"error,omitempty"`
}

// UserInfoResults are the results of UserManager.UserInfo.
type UserInfoResults struct {
	Results []UserInfoResult `json:"results"`
}
