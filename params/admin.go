package params

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/slipway-project/slipway/core/network"
)

// LoginRequest are the parameters of Admin.Login.
type LoginRequest struct {
	AuthTag       string `json:"auth-tag"`
	Credentials   Secret `json:"credentials"`
	Nonce         string `json:"nonce"`                    // of a machine; empty for users
	UserData      string `json:"user-data,omitempty"`      // free text for the audit log
	CLIArgs       string `json:"cli-args,omitempty"`       // likewise
	ClientVersion string `json:"client-version,omitempty"` // likewise
	Trusted       string `json:"trusted,omitempty"`        // TrustOf the authorities that the client trusts; an addition of ours

	// Ticket is what an earlier login gave; WantTicket asks for one. Both are
	// additions of ours: see LoginResult.
	Ticket     Secret `json:"ticket,omitempty"`
	WantTicket bool   `json:"want-ticket,omitempty"`
}

// LoginResult is the result of Admin.Login.
type LoginResult struct {
	Servers       [][]network.HostPort `json:"servers,omitempty"`        // a list for each API server
	ModelTag      string               `json:"model-tag,omitempty"`      // absent on controller connections
	ControllerTag string               `json:"controller-tag,omitempty"` // required by clients
	UserInfo      *AuthUserInfo        `json:"user-info,omitempty"`      // users only
	Facades       []FacadeVersions     `json:"facades,omitempty"`        // sorted by name
	ServerVersion string               `json:"server-version,omitempty"` // required by clients
	CACert        string               `json:"ca-cert,omitempty"`        // PEM, whom to trust from now on; only to clients that trust others, and say so in Trusted

	// Ticket spares the server work when the same person logs in again with the
	// same password, on whichever server of the site. Alone it is worth nothing.
	// People only, if WantTicket asked for it.
	Ticket Secret `json:"ticket,omitempty"`
}

// AuthUserInfo says who logged in, and what that user may do.
type AuthUserInfo struct {
	DisplayName      string     `json:"display-name"`
	Identity         string     `json:"identity"`                  // the user's tag
	LastConnection   *time.Time `json:"last-connection,omitempty"` // the previous login; the zero time if there was none
	ControllerAccess string     `json:"controller-access"`         // login, add-model, superuser
	ModelAccess      string     `json:"model-access"`              // read, write, admin
}

// FacadeVersions names a facade that the connection may call, with its versions
// in rising order.
type FacadeVersions struct {
	Name     string `json:"name"`
	Versions []int  `json:"versions"`
}

// TrustOf returns a short text that stands for certificate authorities, given as
// PEM.
func TrustOf(ca string) string {
	sum := sha256.Sum256([]byte(ca))
	return hex.EncodeToString(sum[:16])
}
