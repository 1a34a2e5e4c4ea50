package machine

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
)

// A driver and a lent machine speak TLS. Each has a certificate of the run, and knows the other's key before:
// all keys are derived from the run's token, which only SSH has carried. So no authority signs them, and no
// clock decides whether they hold.

// errStranger is about a peer that does not have the token of the run.
var errStranger = errors.New("it does not have the key of this run")

// driver is the name of the side that connects. A lent machine's name is its address.
const driver = "driver"

func key(token, name string) (ed25519.PrivateKey, error) {
	if token == "" {
		return nil, errors.New("lent.json has no token")
	}
	seed, err := hkdf.Key(sha256.New, []byte(token), nil, "tsduel "+name, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// secured is how one side of a connection speaks to the other side.
func secured(token, self, other string) (*tls.Config, error) {
	own, err := key(token, self)
	theirs, noKey := key(token, other)
	if err := errors.Join(err, noKey); err != nil {
		return nil, err
	}
	certificate := &x509.Certificate{SerialNumber: big.NewInt(1)}
	signed, err := x509.CreateCertificate(rand.Reader, certificate, certificate, own.Public(), own)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{signed}, PrivateKey: own}},
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		InsecureSkipVerify:     true, // the key is compared instead
		VerifyConnection: func(s tls.ConnectionState) error {
			if public, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !public.Equal(theirs.Public()) {
				return errStranger
			}
			return nil
		},
	}, nil
}

// isStranger says whether a handshake failed because the other side is not of this run.
func isStranger(err error) bool {
	refused, isRefused := errors.AsType[*net.OpError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	return errors.Is(err, errStranger) || noTLS || isRefused && refused.Op == "remote error"
}
