//! Which headers of a request say something, and which its repetition changes.

use super::hash::folded;

/// What a header is to a request.
pub(super) mod class {
    /// Part of the fingerprint: what is not listed.
    pub const PLAIN: u16 = 0;
    /// Not part of it.
    pub const VOLATILE: u16 = 1;
    /// Its value names the operation.
    pub const KEY: u16 = 2;
    /// The same, and makes a repetition safe.
    pub const SAFE_KEY: u16 = 3;
    /// Its value names the operation together with the fingerprint.
    pub const WEAK_KEY: u16 = 4;
    /// So does the part of its value that is the trace.
    pub const TRACE: u16 = 5;
    /// How long the body is.
    pub const LENGTH: u16 = 6;
    /// How it is coded.
    pub const CODING: u16 = 7;
    /// The number of the try, from 1.
    pub const ATTEMPT: u16 = 8;
    /// How many tries were before.
    pub const RETRIES: u16 = 9;
    /// How long its caller waits, ms.
    pub const PATIENCE_MS: u16 = 10;
    /// How long its caller waits, s.
    pub const PATIENCE_S: u16 = 11;
    /// How long its caller waits, in a unit of gRPC.
    pub const PATIENCE: u16 = 12;
    /// `attempt=1; max=3`.
    pub const AWS: u16 = 13;
    /// `gl-go/1.26 gccl-attempt-count/1`.
    pub const GOOGLE: u16 = 14;
    /// It asks to speak another protocol.
    pub const UPGRADE: u16 = 15;

    /// A word of [`AWS`]: the number of the try.
    pub const AWS_ATTEMPT: u16 = 16;
    /// A word of [`AWS`]: when its caller stops waiting.
    pub const AWS_EXPIRES: u16 = 17;
    /// Another.
    pub const AWS_OTHER: u16 = 18;
    /// A word of [`GOOGLE`]: names the operation.
    pub const GOOGLE_KEY: u16 = 19;
    /// A word of [`GOOGLE`]: the number of the try.
    pub const GOOGLE_ATTEMPT: u16 = 20;
    /// Another.
    pub const GOOGLE_OTHER: u16 = 21;
    /// Who asks: [`PLAIN`] where it is a password or token, which lasts;
    /// [`VOLATILE`] where it is a signature, new at each sending.
    pub const CREDENTIALS: u16 = 22;
}

/// One source for the kernel's chain of comparisons and for the test of collisions.
macro_rules! headers {
    ($($class:ident: $($name:literal)+;)+) => {
        /// Every header that is known.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, u16)] = &[$($(($name, class::$class),)+)+];

        /// The class of a header, by the hash of its name.
        #[inline(always)]
        pub(super) const fn class_of(hash: u64) -> u16 {
            $($(if hash == const { folded($name) } {
                return class::$class;
            })+)+
            class::PLAIN
        }
    };
}

headers! {
    // Clocks and signatures: new at each sending.
    VOLATILE: "date" "x-amz-date" "proxy-authorization" "x-amz-security-token" "dpop"
        "signature" "signature-input";
    CREDENTIALS: "authorization";
    // Belong to the connection, which may be another.
    VOLATILE: "connection" "keep-alive" "proxy-connection" "expect" "te";
    // Belong to the hop or to the span, which tracing opens for each try.
    VOLATILE: "tracestate" "baggage" "b3" "x-b3-traceid" "x-b3-spanid" "x-b3-parentspanid"
        "x-b3-sampled" "x-b3-flags" "uber-trace-id" "x-cloud-trace-context" "x-amzn-trace-id"
        "x-datadog-trace-id" "x-datadog-parent-id" "x-datadog-sampling-priority"
        "x-datadog-origin" "x-datadog-tags" "sentry-trace" "newrelic" "x-newrelic-transaction"
        "elastic-apm-traceparent" "x-dynatrace" "x-instana-t" "x-instana-s" "x-instana-l" "sw8"
        "sw8-correlation" "sw8-x" "ot-tracer-traceid" "ot-tracer-spanid" "ot-tracer-sampled"
        "x-ot-span-context" "grpc-trace-bin" "x-envoy-decorator-operation";
    // Given anew to each sending by some, kept by none that says so.
    VOLATILE: "x-correlation-id" "request-id" "correlation-id" "x-trace-id"
        "x-client-request-id" "postman-token" "x-ms-date";
    // Tells of the requests before.
    VOLATILE: "x-stripe-client-telemetry";
    // Say why it is tried again, or what is left of the time for it.
    VOLATILE: "x-envoy-is-timeout-retry" "amz-sdk-retry" "x-slack-retry-reason" "x-cloudtasks-taskretryreason"
        "x-cloudtasks-taskpreviousresponse" "x-cloudtasks-tasketa"
        "finagle-ctx-com.twitter.finagle.deadline";
    // Named for it, and generated once for an operation (facts of the SDKs).
    SAFE_KEY: "idempotency-key" "x-idempotency-key" "x-goog-gcs-idempotency-token"
        "repeatability-request-id" "paypal-request-id";
    KEY: "amz-sdk-invocation-id";
    // Kept by Envoy over its own tries; others reuse it for a page of calls, as
    // callers of Azure do with theirs.
    WEAK_KEY: "x-request-id" "x-ms-client-request-id";
    TRACE: "traceparent";
    LENGTH: "content-length";
    CODING: "transfer-encoding";
    UPGRADE: "upgrade";
    ATTEMPT: "x-envoy-attempt-count";
    RETRIES: "grpc-previous-rpc-attempts" "x-stainless-retry-count" "armeria-retry-count"
        "retry-attempt" "x-slack-retry-num" "x-cloudtasks-taskretrycount"
        "x-cloudtasks-taskexecutioncount" "finagle-ctx-com.twitter.finagle.retries";
    PATIENCE_MS: "x-envoy-expected-rq-timeout-ms";
    PATIENCE_S: "x-server-timeout";
    PATIENCE: "grpc-timeout";
    AWS: "amz-sdk-request";
    GOOGLE: "x-goog-api-client";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn no_two_known_headers_have_one_hash() {
        let mut seen = BTreeMap::new();
        for (name, class) in ALL {
            assert_eq!(class_of(folded(name)), *class, "{name}");
            assert_eq!(seen.insert(folded(name), name), None, "{name}");
        }
    }

    #[test]
    fn a_header_that_is_not_listed_is_plain() {
        for name in [
            "host",
            "accept",
            "cookie",
            "user-agent",
            "x-request-idd",
            "",
        ] {
            assert_eq!(class_of(folded(name)), class::PLAIN, "{name}");
        }
    }
}
