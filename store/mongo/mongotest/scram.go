package mongotest

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// iterations is how often the password is hashed; the least that clients take.
const iterations = 4096

// scram is a conversation by SCRAM-SHA-1 (RFC 5802), with MongoDB's digest of
// the password in the password's place.
type scram struct {
	user      string
	firstBare string
	server    string // our first message
	salt      []byte
	verified  bool
}

func saslStart(c *call) (bson.D, *cmdError) {
	if m, _ := get(c.cmd, "mechanism").(string); m != "SCRAM-SHA-1" {
		return nil, failf(codeBadValue, "Unsupported mechanism '%s'", m)
	}
	first := payload(c.cmd)
	bare, ok := strings.CutPrefix(first, "n,,")
	if !ok {
		return nil, failf(codeAuthFailed, "Authentication failed.")
	}
	attrs := attributes(bare)
	nonce := make([]byte, 18)
	salt := make([]byte, 16)
	rand.Read(nonce)
	rand.Read(salt)
	s := &scram{
		user:      strings.NewReplacer("=2C", ",", "=3D", "=").Replace(attrs["n"]),
		firstBare: bare,
		salt:      salt,
	}
	s.server = fmt.Sprintf("r=%s%s,s=%s,i=%d", attrs["r"], base64.StdEncoding.EncodeToString(nonce),
		base64.StdEncoding.EncodeToString(salt), iterations)
	c.conn.login = s
	return step(s.server, false), nil
}

func saslContinue(c *call) (bson.D, *cmdError) {
	s := c.conn.login
	failed := failf(codeAuthFailed, "Authentication failed.")
	if s == nil {
		return nil, failed
	}
	if s.verified { // the empty last exchange
		c.conn.user, c.conn.login = s.user, nil
		return step("", true), nil
	}
	final := payload(c.cmd)
	attrs := attributes(final)
	password, known := c.server.config.Users[s.user]
	proof, err := base64.StdEncoding.DecodeString(attrs["p"])
	withoutProof, _, _ := strings.Cut(final, ",p=")
	if err != nil || !known || !strings.Contains(s.server, "r="+attrs["r"]+",") {
		return nil, failed
	}
	digest := md5.Sum([]byte(s.user + ":mongo:" + password))
	salted, err := pbkdf2.Key(sha1.New, hex.EncodeToString(digest[:]), s.salt, iterations, sha1.Size)
	if err != nil {
		return nil, failed
	}
	clientKey := mac(salted, "Client Key")
	stored := sha1.Sum(clientKey)
	message := s.firstBare + "," + s.server + "," + withoutProof
	want := mac(stored[:], message)
	for i := range want {
		want[i] ^= clientKey[i]
	}
	if subtle.ConstantTimeCompare(want, proof) != 1 {
		return nil, failed
	}
	s.verified = true
	signature := mac(mac(salted, "Server Key"), message)
	return step("v="+base64.StdEncoding.EncodeToString(signature), false), nil
}

func logout(c *call) (bson.D, *cmdError) {
	c.conn.user = ""
	return bson.New(), nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha1.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func payload(cmd bson.D) string {
	switch v := get(cmd, "payload").(type) {
	case bson.Binary:
		return string(v.Data)
	case string:
		return v
	}
	return ""
}

func step(text string, done bool) bson.D {
	return bson.New("conversationId", int32(1), "done", done, "payload", bson.Binary{Data: []byte(text)})
}

// attributes splits "a=b,c=d".
func attributes(s string) map[string]string {
	out := map[string]string{}
	for part := range strings.SplitSeq(s, ",") {
		if k, v, ok := strings.Cut(part, "="); ok {
			out[k] = v
		}
	}
	return out
}
