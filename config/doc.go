// Package config holds the settings of one client of an external system: the
// [Config] struct, its defaults, its validation, and files and the environment as
// sources of it. It is data only; nothing here opens a connection or starts a
// goroutine.
//
// # Fields
//
// The zero [Config] is every default, and every zero field takes its own:
//
//	Field                        Default                          Environment, after CLIENT_<SYSTEM>__   Rule
//	MaxConnsPerHost              20                               MAX_CONNECTIONS                        1 to 1000000
//	MaxIdleConnsPerHost          MaxConnsPerHost                  MAX_KEEPALIVE_CONNECTIONS              ≤ MaxConnsPerHost
//	IdleConnTimeout              50s                              IDLE_CONN_TIMEOUT                      > 0, ≤ 24h
//	MaxResponseHeaderBytes       1048576                          MAX_RESPONSE_HEADER_BYTES              1 to 2147483647
//	MaxResponseBytes             off                              MAX_RESPONSE_BYTES                     1 to 1099511627776, or off
//	Protocol                     http1                            PROTOCOL                               http1, http2
//	ConnectTimeout               1s                               CONNECT_TIMEOUT                        ≤ 10s, < ReadTimeout
//	ReadTimeout                  5s                               READ_TIMEOUT                           ≤ 60s, < TotalTimeout
//	TotalTimeout                 7s                               TOTAL_TIMEOUT                          ≥ 2 × ConnectTimeout + ReadTimeout, ≤ 5m
//	Bulkhead.MaxConcurrent       0.8 × MaxConnsPerHost            BULKHEAD_MAX_CONCURRENT                < MaxConnsPerHost; 1 of 1 is allowed
//	Bulkhead.AcquireTimeout      100ms                            BULKHEAD_ACQUIRE_TIMEOUT               ≤ 1s, or NoWait (0)
//	Bulkhead.MaxWaiting          10 × MaxConcurrent               BULKHEAD_MAX_WAITING                   ≥ 1, or NoQueue (0)
//	Breaker.Window               30s or 2 × TotalTimeout          BREAKER_WINDOW                         ≥ 2 × TotalTimeout, ≤ 24h
//	Breaker.MinRequests          10                               BREAKER_MIN_REQUESTS                   ≥ 1
//	Breaker.FailureRatio         0.5                              BREAKER_FAILURE_RATIO                  > 0, ≤ 1
//	Breaker.ConsecutiveFailures  MinRequests or MaxConcurrent     BREAKER_CONSECUTIVE_FAILURES           ≥ 1, or Off (off)
//	Breaker.OpenFor              30s                              BREAKER_OPEN_FOR                       > 0, ≤ 24h
//	Breaker.HalfOpenProbes       3                                BREAKER_HALF_OPEN_PROBES               ≥ 1
//	Breaker.SlowCall             off                              BREAKER_SLOW_CALL                      ≤ ReadTimeout, or off
//	Breaker.FailureStatus        500-599                          BREAKER_FAILURE_STATUS                 codes and ranges, 100 to 999
//	Retry.MaxAttempts            1: none is repeated              RETRY_MAX_ATTEMPTS                     1 to 5
//	Retry.PutDelete              false                            RETRY_PUT_DELETE                       true, false
//	Retry.Status                 502-504                          RETRY_STATUS                           codes and ranges of 408, 425, 429, 500 to 599
//	Retry.BaseDelay              100ms                            RETRY_BASE_DELAY                       > 0, ≤ MaxDelay
//	Retry.MaxDelay               1s or BaseDelay                  RETRY_MAX_DELAY                        ≤ 5s
//	Retry.MaxElapsed             5s                               RETRY_MAX_ELAPSED                      > 0, ≤ 5s
//	Retry.MaxRetryAfter          30s                              RETRY_MAX_RETRY_AFTER                  > 0, ≤ 5m
//	Retry.BudgetRatio            0.1                              RETRY_BUDGET_RATIO                     > 0, ≤ 1
//	Retry.BudgetFloor            3                                RETRY_BUDGET_FLOOR                     1 to 100
//	Retry.Gate                   false                            RETRY_GATE                             true, false
//	Retry.DeadlineHeader         none                             RETRY_DEADLINE_HEADER                  a header with a - in its name
//	Retry.DeadlineFloor          off                              RETRY_DEADLINE_FLOOR                   ≤ 10s, or off
//
// Where two defaults are named, the larger one holds. The 0.8 is rounded down,
// and at least 1. In a file the names are those of the environment in lower case,
// with what follows BULKHEAD_, BREAKER_ or RETRY_ nested: breaker: {open_for: 10s}.
//
// # Validation
//
// Nothing is silently adjusted. [Config.Complete] fills in the defaults or
// reports every fault at once, each as a [*FieldError] that names the place, the
// value, the rule and the remedy. A rule between two fields is judged with the
// defaults in place, so a ReadTimeout of 8s alone is refused for the TotalTimeout
// of 7s that it does not fit into.
//
// # Files
//
// [Load] reads the settings of all systems from one YAML file, here clients.yaml:
//
//	# For every system, unless it says otherwise.
//	defaults:
//	  read_timeout: 4s
//	  breaker:
//	    slow_call: 2s
//
//	systems:
//	  sber:
//	    max_connections: 40
//	    total_timeout: 10s
//	    bulkhead:
//	      acquire_timeout: 0 # refuse at once
//	    breaker:
//	      open_for: 10s
//	      failure_status: 429,500-599
//	  sber-reports: # a compartment of its own
//	    max_connections: 5
//	    read_timeout: 30s
//	    total_timeout: 40s
//	    breaker:
//	      open_for: 1m
//	      slow_call: off
//	  insurance: # all as above
//
// Each field is taken from the first of these that sets it:
//
//  1. the environment
//  2. the system's section of the file
//  3. the section defaults
//  4. the default in the table above
//
// A field does not bring its neighbours along: a variable for one setting of the
// breaker leaves the file's others in force. Null and the empty text set nothing, so
// the next source is asked; the way back to the table is to write its value.
//
// A system that the file does not list is there too if the environment has a
// setting of it by its exact name: CLIENT_PAY_GW__READ_TIMEOUT makes "pay-gw", with
// '-' for '_'. Such a system has the defaults of the file. There is no variable for
// the defaults.
//
// What can be written in a variable can be written in a file, with or without
// quotes, and means the same. A file is refused for
//
//   - a key that is not known, on any level; what was probably meant is named
//   - a key that is there twice, and names of systems with one [EnvPrefix]
//   - a name of a system that [CheckName] refuses
//   - a list or a map where a value belongs, or the other way round
//   - aliases, merge keys (<<) and tags: every value has one place, so put what
//     systems share under defaults
//   - being empty, having a second document, more than 1 MiB, or what is no UTF-8
//     or no YAML
//
// A fault's place is a file's name, a line and a path of keys, or a variable:
//
//	config: clients.yaml:7 systems.sber.read_timeout = "30": must be a duration with a unit …
//	config: CLIENT_SBER__PROTOCOL = "h2": must be http1 or http2; …
//
// A value that looks like none of a setting, right or wrong, is "(not shown)": it may be a
// secret that got into the wrong place.
//
// [Explain] says where each value comes from, and what is allowed but unwise; so
// does the command resilient (cmd/resilient), for people and for CI. [Schema] is a
// JSON schema of such files, for editors.
//
// # Environment
//
// The variables of the system "sber-reports" begin with CLIENT_SBER_REPORTS__
// (see [EnvPrefix]); [Load] reads those of all systems, [FromEnv] those of one.
//
//   - A duration carries a unit ("100ms", "1m30s"); a bare number is refused.
//   - Numbers are decimal. Spaces are refused, except in a list of statuses.
//   - A variable set to the empty string is unset.
//   - An explicit 0 (or 0s) means [NoWait] for BULKHEAD_ACQUIRE_TIMEOUT and
//     [NoQueue] for BULKHEAD_MAX_WAITING. Everywhere else it is refused, as it could
//     mean none, no limit or the default.
//   - The word off means [Off] for BREAKER_CONSECUTIVE_FAILURES, and off for
//     MAX_RESPONSE_BYTES, BREAKER_SLOW_CALL and RETRY_DEADLINE_FLOOR.
//   - RETRY_PUT_DELETE and RETRY_GATE are true or false, in no other spelling.
//   - Negative values are refused everywhere, the Go constants' −1 included.
//   - A name that is no variable of this package but looks meant as one is refused
//     with the right name: within two edits of one, in the wrong case, with one
//     underscore after the system, beginning with BULKHEAD_, BREAKER_ or RETRY_, short
//     of that beginning (MAX_CONCURRENT), or as the field is called in Go
//     (MAX_CONNS_PER_HOST). Any other variable under the prefix, such
//     as BASE_URL or TOKEN, is the application's.
package config
