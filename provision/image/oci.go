package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/juju/errors"
)

// Media types of what a registry holds (OCI Image Specification 1.1, and the older
// Docker names for the same).
const (
	typeManifest       = "application/vnd.oci.image.manifest.v1+json"
	typeIndex          = "application/vnd.oci.image.index.v1+json"
	typeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	typeDockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// ociManifest is a manifest or an index.
type ociManifest struct {
	Layers    []ociDescriptor `json:"layers"`
	Manifests []ociDescriptor `json:"manifests"`
}

type ociDescriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
	Platform    struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

var (
	ociDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	ociTag    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	ociName   = regexp.MustCompile(`^[a-z0-9]+([._/-]+[a-z0-9]+)*$`)
)

// ociReference is a parsed oci:// URL.
type ociReference struct{ host, name, reference string }

// parseOCI reads oci://host/name:tag and oci://host/name@sha256:digits.
func parseOCI(address string) (ociReference, error) {
	rest, _ := strings.CutPrefix(address, "oci://")
	host, path, ok := strings.Cut(rest, "/")
	ref := ociReference{host: host, name: path, reference: "latest"}
	if name, digest, found := strings.Cut(path, "@"); found {
		ref.name, ref.reference = name, digest
	} else if name, tag, found := strings.Cut(path, ":"); found {
		ref.name, ref.reference = name, tag
	}
	if !ok || host == "" || !ociName.MatchString(ref.name) || !ociDigest.MatchString(ref.reference) && !ociTag.MatchString(ref.reference) {
		return ref, errors.NotValidf("OCI reference %q (want oci://host/name:tag or @sha256:digest)", address)
	}
	return ref, nil
}

// base returns the registry's URL: https, but for this machine itself.
func (o ociReference) base() string {
	name, _, err := net.SplitHostPort(o.host)
	if err != nil {
		name = o.host
	}
	if ip := net.ParseIP(name); name == "localhost" || ip != nil && ip.IsLoopback() {
		return "http://" + o.host
	}
	return "https://" + o.host
}

// resolveOCI makes r point to the one layer that is a disk image, whose digest it
// must have.
func (f fetcher) resolveOCI(ctx context.Context, r *remote) error {
	ref, err := parseOCI(r.url)
	if err != nil {
		return err
	}
	m, err := f.manifest(ctx, r, ref, ref.reference)
	if err != nil {
		return errors.Annotate(err, "cannot get OCI manifest")
	}
	if len(m.Manifests) > 0 {
		d, err := choosePlatform(m.Manifests, f.arch)
		if err != nil {
			return err
		}
		if m, err = f.manifest(ctx, r, ref, d.Digest); err != nil {
			return errors.Annotate(err, "cannot get OCI manifest")
		}
	}
	layer, err := chooseLayer(m.Layers)
	if err != nil {
		return err
	}
	r.url = ref.base() + "/v2/" + ref.name + "/blobs/" + layer.Digest
	r.digest = layer.Digest
	return nil
}

// choosePlatform returns the manifest for this architecture, or the only one.
func choosePlatform(all []ociDescriptor, arch string) (ociDescriptor, error) {
	var seen []string
	for _, d := range all {
		if d.Platform.Architecture == arch && (d.Platform.OS == "" || d.Platform.OS == "linux") && ociDigest.MatchString(d.Digest) {
			return d, nil
		}
		seen = append(seen, d.Platform.OS+"/"+d.Platform.Architecture)
	}
	if len(all) == 1 && all[0].Platform.Architecture == "" && ociDigest.MatchString(all[0].Digest) {
		return all[0], nil
	}
	return ociDescriptor{}, errors.NotFoundf("OCI manifest for linux/%s (there are %s)", arch, strings.Join(seen, ", "))
}

// chooseLayer returns the layer that is a disk image: the only one, and no archive.
func chooseLayer(layers []ociDescriptor) (ociDescriptor, error) {
	if len(layers) != 1 {
		return ociDescriptor{}, errors.NotSupportedf("OCI artifact of %d layers (want one, the disk image)", len(layers))
	}
	l := layers[0]
	if strings.Contains(l.MediaType, ".tar") || strings.HasSuffix(l.MediaType, "tar+gzip") {
		return l, errors.NotSupportedf("OCI layer of type %s, which is a container's and no disk,", l.MediaType)
	}
	if !ociDigest.MatchString(l.Digest) {
		return l, errors.NotValidf("OCI digest %q", l.Digest)
	}
	return l, nil
}

// manifest gets a manifest by tag or digest, logging in if the registry asks. A
// manifest asked for by digest must have it.
func (f fetcher) manifest(ctx context.Context, r *remote, ref ociReference, reference string) (ociManifest, error) {
	var m ociManifest
	ctx, cancel := context.WithTimeout(ctx, f.stall)
	defer cancel()
	for try := 1; ; try++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, ref.base()+"/v2/"+ref.name+"/manifests/"+reference, nil)
		if err != nil {
			return m, errors.Trace(err)
		}
		req.Header.Set("Accept", strings.Join([]string{typeManifest, typeIndex, typeDockerManifest, typeDockerIndex}, ", "))
		if a := r.header.Get("Authorization"); a != "" {
			req.Header.Set("Authorization", a)
		}
		resp, err := f.client.Do(req)
		if err != nil {
			return m, errors.Trace(err)
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxSmall))
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusUnauthorized && try == 1 {
			if err := f.login(ctx, r, resp.Header.Get("WWW-Authenticate")); err != nil {
				return m, err
			}
			continue
		}
		if resp.StatusCode != http.StatusOK {
			return m, errors.Trace(&statusError{resp.StatusCode, resp.Status})
		}
		if err != nil {
			return m, errors.Trace(err)
		}
		sum := sha256.Sum256(b)
		if got := "sha256:" + hex.EncodeToString(sum[:]); ociDigest.MatchString(reference) && got != reference {
			return m, errors.Annotatef(ErrMismatch, "manifest has digest %s, want %s", got, reference)
		}
		if err := json.Unmarshal(b, &m); err != nil {
			return m, errors.NewNotValid(err, "OCI manifest")
		}
		return m, nil
	}
}

var challengePart = regexp.MustCompile(`([a-z]+)="([^"]*)"`)

// login gets an anonymous token from where the registry says (Docker Registry token
// authentication). The token service must be https, but on this machine itself.
func (f fetcher) login(ctx context.Context, r *remote, challenge string) error {
	rest, ok := strings.CutPrefix(challenge, "Bearer ")
	if !ok {
		return errors.Unauthorizedf("anonymous pull (registry asks %q)", challenge)
	}
	part := map[string]string{}
	for _, m := range challengePart.FindAllStringSubmatch(rest, -1) {
		part[m[1]] = m[2]
	}
	u, err := url.Parse(part["realm"])
	if err != nil || u.Host == "" || u.Scheme != "https" && !strings.HasPrefix((ociReference{host: u.Host}).base(), "http:") {
		return errors.NotValidf("token service %q of registry", part["realm"])
	}
	q := u.Query()
	for _, key := range []string{"service", "scope"} {
		if part[key] != "" {
			q.Set(key, part[key])
		}
	}
	u.RawQuery = q.Encode()
	b, err := f.small(ctx, u.String())
	if err != nil {
		return errors.Annotate(err, "cannot get token of registry")
	}
	var reply struct {
		Token  string `json:"token"`
		Access string `json:"access_token"`
	}
	if err := json.Unmarshal(b, &reply); err != nil || reply.Token+reply.Access == "" {
		return errors.NotValidf("token of registry")
	}
	if reply.Token == "" {
		reply.Token = reply.Access
	}
	r.header.Set("Authorization", "Bearer "+reply.Token)
	return nil
}
