package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	client "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"skein.dev/skein/internal/broker"
	"skein.dev/skein/internal/feed"
	"skein.dev/skein/plus/stream"
)

const (
	// callItems is the largest number of messages of one request, by the rules of SQS.
	callItems = 10
	// parallel is the number of requests that run at once.
	parallel = 8
	// hiddenFor is the time in seconds for which the service hides a message from other readers.
	hiddenFor = 60
	// hideEvery is the interval at which the source hides undeleted messages again.
	hideEvery = 20 * time.Second
	// returnMax bounds the return of messages when the source ends.
	returnMax = 2 * time.Second
	// refusedMax bounds the memory of messages that cannot be used.
	refusedMax = 1000
	// receivesMax is the largest number of receipts after which a queue moves a message to its queue of dead
	// letters, by the rules of SQS.
	receivesMax = 1000
)

// Main runs the source. It returns nil when ctx has ended, or an error if the source cannot continue.
func Main(ctx context.Context, f *feed.Feed) error {
	s := &source{held: map[string]struct{}{}, refused: map[string]struct{}{}}
	if err := stream.Read(&f.Start, &broker.SQS{}, &s.with); err != nil {
		return err
	}
	var err error
	if s.api, err = connect(&f.Start); err != nil {
		return err
	}
	ask := client.GetQueueUrlInput{QueueName: &s.with.Queue}
	if s.with.Account != "" {
		ask.QueueOwnerAWSAccountId = &s.with.Account
	}
	call, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	answer, err := s.api.GetQueueUrl(call, &ask)
	if err != nil {
		return s.failed(err)
	}
	s.queue = answer.QueueUrl
	own, stop := context.WithCancel(ctx)
	hides := make(chan struct{})
	go func() {
		defer close(hides)
		s.hide(own)
	}()
	err = stream.Consume(ctx, f, s)
	stop()
	<-hides
	s.giveBack(context.WithoutCancel(ctx))
	return err
}

// handle names a message to the service.
type handle struct{ receipt, id string }

// source takes the messages of one queue.
type source struct {
	with  broker.SQSInput
	api   *client.Client
	queue *string // the URL of the queue

	mu sync.Mutex // protects following fields
	// held has the receipts of the messages that were received and neither deleted nor returned.
	held map[string]struct{}
	// refused has the IDs of messages that cannot be used and were returned. The service moves them to the
	// queue of dead letters after some returns.
	refused map[string]struct{}
	// redrives is true if the queue has a queue of dead letters. deletes is true if it has none. Until the
	// service has answered, both are false.
	redrives, deletes bool
}

// ordered reports whether the queue holds back the later messages of a group until the earlier ones are
// deleted.
func (s *source) ordered() bool { return strings.HasSuffix(s.with.Queue, ".fifo") }

func (s *source) failed(err error) error { return fmt.Errorf("queue %s: %w", s.with.Queue, said(err)) }

// Receive implements stream.Queue.
func (s *source) Receive(ctx context.Context, most int) ([]stream.Message[handle], error) {
	got, err := s.receive(ctx, most, true)
	if err != nil {
		return nil, err
	}
	more := min((most-len(got))/callItems, parallel)
	if len(got) < callItems || more == 0 {
		return s.messages(ctx, got), nil
	}
	parts := make([][]types.Message, more) // more messages wait
	var all sync.WaitGroup
	for i := range parts {
		all.Go(func() { parts[i], _ = s.receive(ctx, callItems, false) }) // the next call reports an error that lasts
	}
	all.Wait()
	return s.messages(ctx, slices.Concat(append([][]types.Message{got}, parts...)...)), nil
}

// receive asks for messages once. If wait is true, it waits for one until the deadline of ctx. The service
// hides messages that it has sent, also if the request has ended before. So only the end of the source ends
// a request, and the deadline does not.
func (s *source) receive(ctx context.Context, most int, wait bool) ([]types.Message, error) {
	seconds := int32(0)
	if until, ok := ctx.Deadline(); ok && wait {
		seconds = max(1, int32((time.Until(until)+time.Second-1)/time.Second))
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(seconds)*time.Second+callMax)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})()
	answer, err := s.api.ReceiveMessage(call, &client.ReceiveMessageInput{QueueUrl: s.queue, MaxNumberOfMessages: int32(min(callItems, most)), WaitTimeSeconds: seconds,
		VisibilityTimeout: hiddenFor, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameSentTimestamp, types.MessageSystemAttributeNameMessageGroupId,
			types.MessageSystemAttributeNameApproximateReceiveCount}})
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, nil
	case err != nil:
		return nil, s.failed(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range answer.Messages {
		s.held[aws.ToString(answer.Messages[i].ReceiptHandle)] = struct{}{}
	}
	return answer.Messages, nil
}

// messages converts the messages of answers. It puts messages that were refused before back to the queue. A
// message that was received more often than any queue of dead letters waits for is deleted, because the queue
// has none.
func (s *source) messages(ctx context.Context, got []types.Message) (all []stream.Message[handle]) {
	var again, useless []string
	for i := range got {
		m := &got[i]
		s.mu.Lock()
		_, refused := s.refused[stream.Name(aws.ToString(m.MessageId))]
		s.mu.Unlock()
		if refused {
			n, _ := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
			if n > receivesMax {
				useless = append(useless, aws.ToString(m.ReceiptHandle))
			} else {
				again = append(again, aws.ToString(m.ReceiptHandle))
			}
			continue
		}
		all = append(all, s.message(m))
	}
	_ = s.putBack(ctx, again) // if this fails, the queue delivers the messages again after hiddenFor
	_ = s.remove(ctx, useless)
	return all
}

func (s *source) message(m *types.Message) stream.Message[handle] {
	h := handle{aws.ToString(m.ReceiptHandle), stream.Name(aws.ToString(m.MessageId))}
	var value json.RawMessage
	err := error(nil)
	if m.Body != nil {
		value, err = stream.Content([]byte(*m.Body), s.with.Value)
	}
	at := time.Time{}
	if ms, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64); err == nil {
		at = stream.Time(time.UnixMilli(ms))
	}
	attributes := map[string]string{}
	for name, v := range m.MessageAttributes {
		if v.StringValue != nil {
			attributes[stream.Name(name)] = stream.Name(*v.StringValue)
		} else {
			attributes[stream.Name(name)] = stream.Text(v.BinaryValue)
		}
	}
	e := stream.Event("", "message "+h.id+" of queue "+s.with.Queue, at, struct {
		Queue      string            `json:"queue"`
		MessageID  string            `json:"message_id"`
		Group      string            `json:"group"`
		Timestamp  time.Time         `json:"timestamp"`
		Attributes map[string]string `json:"attributes"`
		Value      json.RawMessage   `json:"value"`
	}{s.with.Queue, h.id, stream.Name(m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]), at, attributes, value}, err)
	if s.with.ID == "" {
		return stream.Message[handle]{Handle: h, ID: h.id, Event: e}
	}
	return stream.Identified(h, e, s.with.ID)
}

// Acknowledge implements stream.Queue. A message that cannot be used is deleted only if the queue has no queue
// of dead letters. Otherwise it is put back.
func (s *source) Acknowledge(ctx context.Context, all []stream.Message[handle]) error {
	var done, refused []string
	s.mu.Lock()
	for i := range all {
		if all[i].Event.Value != nil || s.deletes {
			done = append(done, all[i].Handle.receipt)
			continue
		}
		if refused = append(refused, all[i].Handle.receipt); len(s.refused) >= refusedMax {
			clear(s.refused)
		}
		s.refused[all[i].Handle.id] = struct{}{}
	}
	s.mu.Unlock()
	return errors.Join(s.remove(ctx, done), s.putBack(ctx, refused))
}

// putBack returns messages that cannot be used to the queue. Unless the queue is known to have a queue of
// dead letters, they stay hidden for the rest of hiddenFor, so that they do not come again at once. In an
// ordered queue they come again at once, because they hold back the later messages of their group.
func (s *source) putBack(ctx context.Context, receipts []string) error {
	s.mu.Lock()
	now := s.redrives || s.ordered()
	s.mu.Unlock()
	if now {
		return s.show(ctx, receipts, 0)
	}
	s.forget(receipts)
	return nil
}

// inParts splits receipts into parts that fit into one request, and calls do for each part, up to parallel
// calls at a time. It returns one of their errors.
func inParts(receipts []string, do func(part []string) error) error {
	var all sync.WaitGroup
	places := make(chan struct{}, parallel)
	failed := make(chan error, len(receipts))
	for part := range slices.Chunk(receipts, callItems) {
		places <- struct{}{}
		all.Go(func() {
			failed <- do(part)
			<-places
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes messages. If the service refuses a receipt, its message comes again, and its ID is known
// then.
func (s *source) remove(ctx context.Context, receipts []string) error {
	return inParts(receipts, func(part []string) error {
		ask := client.DeleteMessageBatchInput{QueueUrl: s.queue}
		for i := range part {
			ask.Entries = append(ask.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &part[i]})
		}
		answer, err := s.api.DeleteMessageBatch(ctx, &ask)
		if err != nil {
			return s.failed(err)
		}
		for _, f := range answer.Failed {
			if !f.SenderFault {
				return fmt.Errorf("queue %s: a message is not deleted: %s (%s)", s.with.Queue, stream.Name(aws.ToString(f.Message)), stream.Name(aws.ToString(f.Code)))
			}
		}
		s.forget(part)
		return nil
	})
}

// show makes the service show messages to readers after some seconds. 0 seconds returns them to the queue at
// once.
func (s *source) show(ctx context.Context, receipts []string, after int32) error {
	return inParts(receipts, func(part []string) error {
		ask := client.ChangeMessageVisibilityBatchInput{QueueUrl: s.queue}
		for i := range part {
			ask.Entries = append(ask.Entries, types.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &part[i], VisibilityTimeout: after})
		}
		if _, err := s.api.ChangeMessageVisibilityBatch(ctx, &ask); err != nil {
			return s.failed(err)
		}
		if after == 0 {
			s.forget(part)
		}
		return nil
	})
}

func (s *source) forget(receipts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range receipts {
		delete(s.held, r)
	}
}

func (s *source) receipts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.held))
}

// hide keeps the messages that are not deleted yet hidden until ctx ends, for example while the trigger has
// no room. If the service refuses a receipt, its message comes again, and joins the first one.
func (s *source) hide(ctx context.Context) {
	tick := time.NewTicker(hideEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			call, cancel := context.WithTimeout(ctx, hideEvery)
			_ = s.show(call, s.receipts(), hiddenFor) // the next call of receive reports an error that lasts
			cancel()
		}
	}
}

// giveBack returns the messages that are not stored, so that the next process of the source gets them at
// once.
func (s *source) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, returnMax)
	defer cancel()
	_ = s.show(ctx, s.receipts(), 0) // if this fails, the queue delivers the messages again after hiddenFor
}

// Waiting implements stream.Queue. A user who may not ask gets no number.
func (s *source) Waiting(ctx context.Context) (*int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	answer, err := s.api.GetQueueAttributes(ctx, &client.GetQueueAttributesInput{QueueUrl: s.queue,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameRedrivePolicy}})
	switch {
	case isDenied(err):
		return nil, nil
	case err != nil:
		return nil, s.failed(err)
	}
	s.mu.Lock()
	s.redrives = answer.Attributes[string(types.QueueAttributeNameRedrivePolicy)] != ""
	s.deletes = !s.redrives
	s.mu.Unlock()
	n, err := strconv.ParseInt(answer.Attributes[string(types.QueueAttributeNameApproximateNumberOfMessages)], 10, 64)
	if err != nil {
		return nil, nil
	}
	return &n, nil
}
