package controlplane

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// access is what a client needs to reach the API server: the server's self-signed certificate, a token, and the key
// that signs the tokens of service accounts.
type access struct {
	dir     string
	address string // address of the API server
	token   string
}

func (a *access) key() string         { return filepath.Join(a.dir, "service-accounts.key") }
func (a *access) tokens() string      { return filepath.Join(a.dir, "tokens.csv") }
func (a *access) certificate() string { return filepath.Join(a.dir, "apiserver.crt") }
func (a *access) kubeconfig() string  { return filepath.Join(a.dir, "kubeconfig") }

// prepare writes what the API server reads when it starts.
func (a *access) prepare() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	block := pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(a.key(), pem.EncodeToMemory(&block), 0o600); err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	a.token = rand.Text()
	if err := os.WriteFile(a.tokens(), []byte(a.token+",tests,tests,system:masters\n"), 0o600); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return nil
}

func (a *access) writeKubeconfig() error {
	config := api.Config{
		Clusters:       map[string]*api.Cluster{"tests": {Server: a.address, CertificateAuthority: a.certificate()}},
		AuthInfos:      map[string]*api.AuthInfo{"tests": {Token: a.token}},
		Contexts:       map[string]*api.Context{"tests": {Cluster: "tests", AuthInfo: "tests"}},
		CurrentContext: "tests",
	}
	if err := clientcmd.WriteToFile(config, a.kubeconfig()); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}
