package machine

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"tsduel/host/record"
)

// A driver without the run's token is refused, whatever it says, and a driver with it can still connect.
func TestADriverWithoutTheKeyIsRefused(t *testing.T) {
	lent, _ := lending(t, time.Minute)
	for _, token := range []string{strings.Repeat("b", 64), strings.Repeat("a", 63) + "b", "{}\n"} {
		wrong := *lent
		wrong.Token = token
		if _, _, err := Borrow(t.Context(), &wrong, "host2"); err == nil ||
			!strings.HasPrefix(err.Error(), "what answers at 127.0.0.2:") {
			t.Error(err)
		}
	}
	at := net.TCPAddr{IP: net.IPv4(127, 0, 0, 2), Port: lent.Port}
	config, err := secured(lent.Token, driver, at.String())
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = nil // it knows the machine, and has no key of its own
	for name, says := range map[string]func() (net.Conn, error){
		"a TLS client without a certificate": func() (net.Conn, error) { return tls.Dial("tcp", at.String(), config) },
		"the token in the clear": func() (net.Conn, error) {
			conn, err := net.Dial("tcp", at.String())
			if err == nil {
				_, err = conn.Write([]byte(lent.Token + `{"method":"Machine.Release","params":[{}],"id":0}`))
			}
			return conn, err
		},
	} {
		conn, err := says()
		if err == nil {
			if got, _ := io.ReadAll(conn); bytes.HasPrefix(got, []byte{'y'}) {
				t.Errorf("%s is let in", name)
			}
			_ = conn.Close()
		}
	}
	there, _ := borrow(t, lent)
	if err := there.Reach(); err != nil {
		t.Error(err)
	}
	there.HangUp()
}

// Whoever has the port of a lent host learns nothing of the run, and is refused in a sentence.
func TestAStrangersPortIsRefused(t *testing.T) {
	for name, answers := range map[string]func(net.Conn, *bytes.Buffer){
		"a server that says y to all": func(conn net.Conn, heard *bytes.Buffer) {
			_, _ = conn.Write([]byte("yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"))
			_, _ = heard.ReadFrom(conn)
		},
		"a lent host of another run": func(conn net.Conn, heard *bytes.Buffer) {
			config, _ := secured(strings.Repeat("c", 64), conn.LocalAddr().String(), driver)
			_ = tls.Server(conn, config).Handshake()
		},
	} {
		t.Run(name, func(t *testing.T) {
			lent := &record.Lent{Token: strings.Repeat("a", 64), Hosts: map[string]string{"host2": "127.0.0.2"}}
			l, err := Listen(lent, "host2")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			lent.Port = l.Addr().(*net.TCPAddr).Port
			var heard bytes.Buffer
			over := make(chan struct{})
			go func() {
				defer close(over)
				if conn, err := l.Accept(); err == nil {
					answers(conn, &heard)
					_ = conn.Close()
				}
			}()
			_, _, err = Borrow(t.Context(), lent, "host2")
			var stop *record.Stop
			if !errors.As(err, &stop) || stop.Code != record.ExitFailed ||
				!strings.HasPrefix(stop.Message, "what answers at "+l.Addr().String()+" is not host2, which was lent ") ||
				!strings.HasSuffix(stop.Message, "; the same command with RUN= goes on") {
				t.Error(err)
			}
			if <-over; bytes.Contains(heard.Bytes(), []byte(lent.Token[:8])) {
				t.Errorf("it was told the token: %q", heard.Bytes())
			}
		})
	}
}

// A user's mistake on a lent host ends a run with the code of a user's mistake, and other errors with none.
func TestTheClassOfAnErrorTravels(t *testing.T) {
	lent := &record.Lent{Token: strings.Repeat("a", 64), Hosts: map[string]string{"host2": "127.0.0.2"}}
	l, err := Listen(lent, "host2")
	if err != nil {
		t.Fatal(err)
	}
	lent.Port = l.Addr().(*net.TCPAddr).Port
	wrong := error(record.UserError("it has no Go"))
	go func() {
		fails := func(context.Context) (*record.Workload, error) { return nil, wrong }
		_ = Lend(t.Context(), l, lent.Token, time.Minute, fails)
	}()
	there, _ := borrow(t, lent)
	var stop *record.Stop
	if err := there.Workload(None{}, &record.Workload{}); !errors.As(err, &stop) || stop.Code != record.ExitUser ||
		stop.Message != "host2: it has no Go" {
		t.Errorf("%#v", err)
	}
	wrong = errors.New("a disk is broken")
	if err := there.Workload(None{}, &record.Workload{}); errors.As(err, &stop) || err == nil ||
		err.Error() != "host2: a disk is broken" {
		t.Errorf("%#v", err)
	}
	there.Release()
}
