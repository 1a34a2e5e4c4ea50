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
		_, _, err := Borrow(t.Context(), &wrong, "host2")
		wantStop(t, err, record.ExitFailed, "what answers at 127.0.0.2:")
	}
	at := net.TCPAddr{IP: net.IPv4(127, 0, 0, 2), Port: lent.Port}
	config, err := secured(lent.Token, driver, at.String())
	must(t, err)
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
	must(t, there.Reach())
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
			lent, l := listening(t)
			var heard bytes.Buffer
			over := make(chan struct{})
			go func() {
				defer close(over)
				if conn, err := l.Accept(); err == nil {
					answers(conn, &heard)
					_ = conn.Close()
				}
			}()
			_, _, err := Borrow(t.Context(), lent, "host2")
			wantStop(t, err, record.ExitFailed, "what answers at "+l.Addr().String()+" is not host2, which was lent ",
				"; the same command with RUN= goes on")
			<-over
			check(t, !bytes.Contains(heard.Bytes(), []byte(lent.Token[:8])), "it was told the token:", heard.String())
		})
	}
}

// A user's mistake on a lent host ends a run with the code of a user's mistake, and other errors with none.
func TestTheClassOfAnErrorTravels(t *testing.T) {
	lent, l := listening(t)
	wrong := error(record.UserError("it has no Go"))
	go func() {
		fails := func(context.Context) (*record.Workload, error) { return nil, wrong }
		_ = Lend(t.Context(), l, lent.Token, time.Minute, fails)
	}()
	there, _ := borrow(t, lent)
	wantStop(t, there.Workload(None{}, &record.Workload{}), record.ExitUser, "host2: it has no Go")
	wrong = errors.New("a disk is broken")
	err := there.Workload(None{}, &record.Workload{})
	_, is := errors.AsType[*record.Stop](err)
	check(t, !is && err != nil && err.Error() == "host2: a disk is broken", err)
	there.Release()
}
