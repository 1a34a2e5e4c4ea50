package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"tsduel/host/record"
)

// Call is a call of a method of Machine on a lent machine.
type Call struct {
	Method string
	Args   json.RawMessage
}

// Answer is what it returned. net/rpc keeps only the text of an error; Code is that of a record.Stop, else 0.
type Answer struct {
	Reply json.RawMessage
	Wrong string
	Code  int
}

// Call calls a method of the service, or of its machine.
func (s *service) Call(c Call, answer *Answer) error {
	method := reflect.ValueOf(s).MethodByName(c.Method)
	if !method.IsValid() {
		return fmt.Errorf("there is no method %s here", c.Method)
	}
	args, reply := reflect.New(method.Type().In(0)), reflect.New(method.Type().In(1).Elem())
	if err := json.Unmarshal(c.Args, args.Interface()); err != nil {
		return err
	}
	var stop *record.Stop
	if wrong, failed := method.Call([]reflect.Value{args.Elem(), reply})[0].Interface().(error); failed {
		if answer.Wrong = wrong.Error(); errors.As(wrong, &stop) {
			answer.Code = stop.Code
		}
	}
	var err error
	answer.Reply, err = json.Marshal(reply.Interface())
	return err
}

// unpack gives the reply, or the error of a host with its exit code.
func (a *Answer) unpack(host string, reply any) error {
	switch {
	case a.Code != 0:
		return &record.Stop{Code: a.Code, Message: host + ": " + a.Wrong}
	case a.Wrong != "":
		return fmt.Errorf("%s: %s", host, a.Wrong)
	}
	return json.Unmarshal(a.Reply, reply)
}
