//! Policy files: any text is refused with errors that name a line of it, or is
//! a policy that survives being shown and read again.
#![no_main]
#![allow(dead_code, reason = "the whole module is included for its parser")]

#[path = "../../governor-user/src/policy/mod.rs"]
mod policy;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match policy::parse(text, "fuzz.yaml") {
        Ok(policies) => {
            let shown = policy::show::yaml(&policies).expect("a policy can be shown");
            let again = policy::parse(&shown, "shown.yaml").expect("what is shown can be read");
            assert_eq!(policies.len(), again.len());
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a reason");
            for error in errors {
                assert_eq!(error.to_string().lines().count(), 1, "one line: {error}");
            }
        }
    }
});
