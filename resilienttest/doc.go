// Package resilienttest is for the tests of code that calls external systems
// through package resilient: what does it do when sber hangs, fails, is open or
// full?
//
//	synctest.Test(t, func(t *testing.T) {
//		sber := resilienttest.NewPartner(t)
//		client := sber.Client("sber", resilient.Config{})
//		shop := NewShop(sber.URL(), client)
//
//		client.ForceOpen(0)
//		if got := shop.Pay(t.Context(), order); got != "try later" {
//			t.Errorf("got %q", got)
//		}
//	})
//
// A [Partner] is a server of its own behind the real client, on an in-memory
// network: nothing of the client is replaced, and in a bubble of
// [testing/synctest] its timeouts and the breaker's 30 seconds cost nothing. With
// [Loopback] it is on a real socket, for what runs outside of bubbles: a service
// that is started whole, another process.
//
// # States
//
//	it hangs, fails, resets   what the partner is scripted to do: Partner.Hang, …
//	open                      Client.ForceOpen(0), or let it fail until the breaker opens
//	full                      Fill
//	closed                    Client.Close
//
// # What happened
//
// [Partner.Requests] is what reached the system, [Outcomes] what the client has
// counted, and Client.State what it looks like now, with the last transitions of
// its breaker.
//
// # The end
//
// The registry of a Partner, and any that [NewRegistry] makes, checks at the end
// of the test that everything was given back: no request may be under way, no
// response body be left open, no permit be held. Then its clients are closed.
package resilienttest
