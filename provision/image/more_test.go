package image_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	"golang.org/x/crypto/blake2b"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/image"
)

func newTLSServer(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	return s
}

// setDictionary changes the dictionary's size in the first block of an xz file.
func setDictionary(t *testing.T, b []byte, size byte) {
	t.Helper()
	h := b[12:]
	n := int(h[0])*4 + 4
	i := bytes.Index(h[:n], []byte{0x21, 1})
	if i < 0 {
		t.Fatal("no filter in the block header")
	}
	h[i+2] = size
	binary.LittleEndian.PutUint32(h[n-4:], crc32.ChecksumIEEE(h[:n-4]))
}

// signer makes minisign keys and signatures.
type signer struct {
	id      string
	private ed25519.PrivateKey
	public  string
}

func newSigner(t *testing.T, id string) signer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, private, base64.StdEncoding.EncodeToString([]byte("Ed" + id + string(public)))}
}

func (s signer) sign(file []byte, algorithm, comment string) string {
	sum := blake2b.Sum512(file)
	sig := ed25519.Sign(s.private, sum[:])
	global := ed25519.Sign(s.private, append(bytes.Clone(sig), comment...))
	return "untrusted comment: x\n" + base64.StdEncoding.EncodeToString([]byte(algorithm+s.id+string(sig))) +
		"\ntrusted comment: " + comment + "\n" + base64.StdEncoding.EncodeToString(global) + "\n"
}

func TestSignature(t *testing.T) {
	content := diskImage(2 * mib)
	file := packers["zstd"](t, content)
	ours, other := newSigner(t, "KEYID001"), newSigner(t, "KEYID002")
	good := ours.sign(file, "ED", "debian 12")
	for _, tc := range []struct {
		name, sig, key string
		kind           error
	}{
		{"right", good, ours.public, nil},
		{"right, key with its comment", good, "untrusted comment: minisign public key\n" + ours.public, nil},
		{"of another file", ours.sign(content, "ED", "x"), ours.public, image.ErrMismatch},
		{"by another key", other.sign(file, "ED", "x"), ours.public, image.ErrMismatch},
		{"by another key with our id", signer{ours.id, other.private, ""}.sign(file, "ED", "x"), ours.public, image.ErrMismatch},
		{"forged comment", strings.Replace(good, "debian 12", "debian 13", 1), ours.public, image.ErrMismatch},
		{"not hashed first", ours.sign(file, "Ed", "x"), ours.public, errors.NotSupported},
		{"nonsense", "hello", ours.public, errors.NotValid},
		{"key nonsense", good, "hello", errors.NotValid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t)
			order := config.Image{URLs: []string{s.add("image", file)}, Signature: config.Signature{URL: s.add("image.minisig", []byte(tc.sig)), PublicKey: tc.key}}
			d := newDrive(t, 4*mib)
			_, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size})
			if tc.kind == nil && err != nil || tc.kind != nil && !errors.Is(err, tc.kind) {
				t.Errorf("Write = %v, want %v", err, tc.kind)
			}
			if err != nil && d.content(t)[0] != 0 && d.content(t)[0] != 0xAA {
				t.Error("the beginning of the disk holds the image")
			}
		})
	}
	s := newServer(t)
	order := config.Image{URLs: []string{s.add("image", file)}, Signature: config.Signature{URL: s.URL + "/none", PublicKey: ours.public}}
	if _, _, err := writer(s).Check(t.Context(), order); !errors.Is(err, errors.NotFound) {
		t.Errorf("Check without the signature's file = %v, want NotFound before anything is wiped", err)
	}
}

// registry serves one artifact and wants a token.
type registry struct {
	*httptest.Server
	docs  map[string][]byte
	blob  []byte
	asked []string
}

func newRegistry(t *testing.T, blob []byte) *registry {
	r := &registry{docs: map[string][]byte{}, blob: blob}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.asked = append(r.asked, q.URL.Path)
	if q.URL.Path == "/token" {
		_ = json.NewEncoder(w).Encode(map[string]string{"token": "t-" + q.URL.Query().Get("scope")})
		return
	}
	if q.Header.Get("Authorization") != "Bearer t-pull" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+r.URL+`/token",service="r",scope="pull"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	name := q.URL.Path[strings.LastIndex(q.URL.Path, "/")+1:]
	switch {
	case r.docs[name] != nil:
		_, _ = w.Write(r.docs[name])
	case name == sha(r.blob):
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(r.blob))
	default:
		http.NotFound(w, q)
	}
}

// add stores a document under its digest, and under tag if that is not "".
func (r *registry) add(tag, format string, args ...any) string {
	doc := fmt.Appendf(nil, format, args...)
	digest := sha(doc)
	r.docs[digest] = doc
	if tag != "" {
		r.docs[tag] = doc
	}
	return digest
}

func TestOCI(t *testing.T) {
	content := diskImage(2 * mib)
	blob := packers["zstd"](t, content)
	r := newRegistry(t, blob)
	layer := fmt.Sprintf(`{"mediaType":"application/x-disk","digest":%q,"size":%d}`, sha(blob), len(blob))
	single := r.add("v1", `{"layers":[%s]}`, layer)
	r.add("multi", `{"manifests":[{"digest":"%s","platform":{"os":"linux","architecture":"arm64"}},{"digest":%q,"platform":{"os":"linux","architecture":"amd64"}}]}`, strings.Repeat("x", 71), single)
	r.add("arm", `{"manifests":[{"digest":%q,"platform":{"os":"linux","architecture":"arm64"}}]}`, single)
	r.add("two", `{"layers":[%s,%s]}`, layer, layer)
	r.add("container", `{"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":%q}]}`, sha(blob))
	wrong := sha([]byte("other"))
	r.add("wrong", `{"layers":[{"mediaType":"application/x-disk","digest":%q}]}`, wrong)
	r.docs[sha([]byte("forged"))] = []byte(`{"layers":[` + layer + `]}`)
	host := strings.TrimPrefix(r.URL, "http://")
	for _, tc := range []struct {
		name, ref string
		kind      error
		strict    bool // neither checksum nor allow-unverified
	}{
		{"tag", "/images/debian:v1", nil, false},
		{"index", "/images/debian:multi", nil, false},
		{"digest, which verifies by itself", "/images/debian@" + single, nil, true},
		{"digest of another manifest", "/images/debian@" + sha([]byte("forged")), image.ErrMismatch, true},
		{"other architecture", "/images/debian:arm", errors.NotFound, false},
		{"two layers", "/images/debian:two", errors.NotSupported, false},
		{"a container", "/images/debian:container", errors.NotSupported, false},
		{"no name", "/", errors.NotValid, false},
		{"a name that climbs", "/../x:v1", errors.NotValid, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			order := config.Image{URLs: []string{"oci://" + host + tc.ref}, Unverified: !tc.strict}
			w := image.NewWriter(image.Config{Arch: "amd64", Pause: time.Millisecond})
			d := newDrive(t, 4*mib)
			_, err := w.Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size})
			if tc.kind == nil && err != nil || tc.kind != nil && !errors.Is(err, tc.kind) {
				t.Errorf("Write = %v, want %v", err, tc.kind)
			}
			if err == nil && !bytes.Equal(d.content(t)[:len(content)], content) {
				t.Error("content differs")
			}
		})
	}
}

func TestTheBlobMustHaveItsDigest(t *testing.T) {
	blob := diskImage(2 * mib)
	r := newRegistry(t, blob)
	digest := sha(blob)
	manifest := r.add("", `{"layers":[{"mediaType":"application/x-disk","digest":%q}]}`, digest)
	evil := bytes.Clone(blob)
	evil[mib]++
	r.docs[digest] = evil
	order := config.Image{URLs: []string{"oci://" + strings.TrimPrefix(r.URL, "http://") + "/x@" + manifest}}
	d := newDrive(t, 4*mib)
	_, err := image.NewWriter(image.Config{Pause: time.Millisecond}).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size})
	if !errors.Is(err, image.ErrMismatch) || d.bootable(t) {
		t.Errorf("Write = %v, want ErrMismatch and nothing at the ends", err)
	}
}

func TestWhatTheFirstPassDidNotVerifyIsNotWritten(t *testing.T) {
	content := diskImage(3 * mib)
	file := packers["qcow2"](t, content)
	evil := bytes.Clone(file)
	for i := len(evil) - 64<<10; i < len(evil); i++ {
		evil[i] ^= 0x5A
	}
	s := newServer(t)
	order := config.Image{URLs: []string{s.add("image", file)}, Checksum: sha(file)}
	s.after = func(n int) {
		if n > 2 { // the beginning, the whole file, and then parts of another under the same tag
			s.files["/image"] = evil
		}
	}
	d := newDrive(t, 4*mib)
	if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: d.size}); !errors.Is(err, image.ErrMismatch) || d.bootable(t) {
		t.Errorf("Write = %v, want ErrMismatch", err)
	}
}

func TestQcow2NeedsParts(t *testing.T) {
	s := newServer(t)
	s.noRange = true
	order := config.Image{URLs: []string{s.add("image", packers["qcow2"](t, diskImage(mib)))}, Unverified: true}
	if _, _, err := writer(s).Check(t.Context(), order); !errors.Is(err, errors.NotSupported) || !strings.Contains(err.Error(), "parts") {
		t.Errorf("Check = %v, want NotSupported", err)
	}
}

func TestQcow2HeadersThatAreRefused(t *testing.T) {
	be := binary.BigEndian
	for _, tc := range []struct {
		name string
		edit func(b []byte)
		kind error
	}{
		{"backing file", func(b []byte) { be.PutUint64(b[8:], 200); be.PutUint32(b[16:], 11) }, errors.NotSupported},
		{"encryption", func(b []byte) { be.PutUint32(b[32:], 1) }, errors.NotSupported},
		{"external data", func(b []byte) { be.PutUint64(b[72:], 4) }, errors.NotSupported},
		{"corrupt", func(b []byte) { be.PutUint64(b[72:], 2) }, errors.NotSupported},
		{"subclusters", func(b []byte) { be.PutUint64(b[72:], 16) }, errors.NotSupported},
		{"unknown feature", func(b []byte) { be.PutUint64(b[72:], 1<<40) }, errors.NotSupported},
		{"version 4", func(b []byte) { be.PutUint32(b[4:], 4) }, errors.NotSupported},
		{"cluster of 2^8", func(b []byte) { be.PutUint32(b[20:], 8) }, errors.NotValid},
		{"cluster of 2^31", func(b []byte) { be.PutUint32(b[20:], 31) }, errors.NotValid},
		{"size zero", func(b []byte) { be.PutUint64(b[24:], 0) }, errors.NotValid},
		{"size beyond all bounds", func(b []byte) { be.PutUint64(b[24:], 1<<63) }, errors.NotValid},
		{"first table too short", func(b []byte) { be.PutUint32(b[36:], 0) }, errors.NotValid},
		{"first table outside", func(b []byte) { be.PutUint64(b[40:], 1<<40) }, errors.NotValid},
		{"first table not aligned", func(b []byte) { be.PutUint64(b[40:], 3) }, errors.NotValid},
	} {
		file := packers["qcow2"](t, diskImage(mib))
		tc.edit(file)
		s := newServer(t)
		order := config.Image{URLs: []string{s.add("image", file)}, Unverified: true}
		if _, _, err := writer(s).Check(t.Context(), order); !errors.Is(err, tc.kind) {
			t.Errorf("%s: Check = %v, want %v", tc.name, err, tc.kind)
		}
	}
}

// TestMemoryIsConstant streams an image whose window and size are large, and looks at
// the heap all the time.
func TestMemoryIsConstant(t *testing.T) {
	t.Run("zstd", func(t *testing.T) { memoryIsConstant(t, "zstd", 192*mib, 8) })
	t.Run("qcow2", func(t *testing.T) { memoryIsConstant(t, "qcow2", 96*mib, 0) })
}

// memoryIsConstant writes an image of a format and size whose window is so many MiB.
func memoryIsConstant(t *testing.T, format string, size, window int64) {
	src := diskImage(mib)
	var whole bytes.Buffer
	for range size / mib {
		whole.Write(src)
	}
	file := packers[format](t, whole.Bytes())
	sum := sha256.Sum256(file)
	whole = bytes.Buffer{}
	s := newServer(t)
	order := config.Image{URLs: []string{s.add("image", file)}, Checksum: fmt.Sprintf("%x", sum)}
	d := &sink{}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	d.look = func() {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		d.peak = max(d.peak, int64(now.HeapInuse)-int64(before.HeapInuse))
	}
	if _, err := writer(s).Write(t.Context(), order, image.Target{URL: order.URLs[0], Device: d, Size: size}); err != nil {
		t.Fatal(err)
	}
	t.Logf("peak %d MiB for an image of %d MiB with a window of %d MiB", d.peak>>20, size>>20, window)
	if most := (64 + window) * mib; d.peak > most {
		t.Errorf("peak %d MiB, want %d at most", d.peak>>20, most>>20)
	}
}

// sink is a device that keeps nothing.
type sink struct {
	n    int
	peak int64
	look func()
}

func (s *sink) WriteAt(p []byte, _ int64) (int, error) {
	if s.n++; s.n%16 == 0 {
		s.look()
	}
	return len(p), nil
}
func (*sink) ReadAt([]byte, int64) (int, error) { return 0, errors.New("not read") }
func (*sink) Zero(int64, int64) error           { return nil }
func (*sink) Size() (int64, error)              { return 0, nil }
func (*sink) Sync() error                       { return nil }
func (*sink) Reread() error                     { return nil }
func (*sink) Close() error                      { return nil }

// median returns the middle of v.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
