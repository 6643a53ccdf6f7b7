//! The hook: the operator's program that adds records to DNS, and removes them.

use crate::AcmeTrouble;
use crate::obtain::NotObtained;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

/// Enough time for a hook that waits until all name servers have the record.
const HOOK_MAX: Duration = Duration::from_secs(300);

/// The most to read of a hook's error output.
const COMPLAINT_BYTES_MAX: u64 = 16 << 10;

/// The action requested from a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookVerb {
    Present,
    Cleanup,
}

impl HookVerb {
    fn as_str(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Cleanup => "cleanup",
        }
    }
}

/// A TXT record: its domain, its name, its value.
#[derive(Clone, Debug)]
pub(crate) struct TxtRecord {
    pub(crate) domain: String,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Runs `hook VERB DOMAIN NAME VALUE` to its end.
///
/// # Errors
/// If it fails, with the last line of its error output, or takes too long.
pub(crate) async fn run(
    hook: &Path,
    verb: HookVerb,
    record: &TxtRecord,
) -> Result<(), NotObtained> {
    run_within(HOOK_MAX, hook, verb, record).await
}

async fn run_within(
    limit: Duration,
    hook: &Path,
    verb: HookVerb,
    record: &TxtRecord,
) -> Result<(), NotObtained> {
    let TxtRecord { domain, name, value } = record;
    let failed = |why: &dyn std::fmt::Display| {
        let said = format!("the hook `{} {} {domain}` {why}", hook.display(), verb.as_str());
        NotObtained::Told(AcmeTrouble::Hook, said)
    };
    let mut child = Command::new(hook)
        .args([verb.as_str(), domain, name, value])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(&format_args!("cannot be started: {error}")))?;
    let mut said = Vec::new();
    let mut complaints = child.stderr.take().expect("piped").take(COMPLAINT_BYTES_MAX);
    let ended = timeout(limit, async {
        // A read error is ignored. A hook that writes more than the limit gets a broken pipe.
        let _ = complaints.read_to_end(&mut said).await;
        drop(complaints);
        child.wait().await
    });
    match ended.await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => {
            let said = String::from_utf8_lossy(&said);
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            Err(failed(&format_args!("failed ({status}): {}", last.unwrap_or("no message"))))
        }
        Ok(Err(error)) => Err(failed(&format_args!("cannot be waited for: {error}"))),
        Err(_) => Err(failed(&format_args!("took longer than {} s", limit.as_secs_f64()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::tempdir;

    /// The result of a hook with this script.
    fn come_of(script: &str, verb: HookVerb) -> (Result<(), String>, String) {
        let folder = tempdir().unwrap();
        let (hook, out) = (folder.path().join("hook"), folder.path().join("out"));
        std::fs::write(&hook, format!("#!/bin/sh\nout={}\n{script}\n", out.display())).unwrap();
        std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o700)).unwrap();
        let record = TxtRecord {
            domain: "*.a.example".into(),
            name: "_acme-challenge.a.example".into(),
            value: "x-y".into(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let limit = Duration::from_secs(if script.contains("sleep") { 1 } else { 60 });
        // A concurrent test may fork while the script is open for writing.
        let run = || runtime.block_on(run_within(limit, &hook, verb, &record));
        let mut ran = run();
        while matches!(&ran, Err(NotObtained::Told(_, said)) if said.contains("busy")) {
            ran = run();
        }
        let ran = ran.map_err(|error| match error {
            NotObtained::Told(AcmeTrouble::Hook, said) => said,
            other => panic!("{other:?}"),
        });
        (ran, std::fs::read_to_string(out).unwrap_or_default())
    }

    #[test]
    fn a_hook_is_told_which_record_to_make_and_which_to_take_out() {
        for (verb, word) in [(HookVerb::Present, "present"), (HookVerb::Cleanup, "cleanup")] {
            let (ran, out) = come_of("echo \"$@\" >$out", verb);
            assert_eq!(ran, Ok(()));
            assert_eq!(out, format!("{word} *.a.example _acme-challenge.a.example x-y\n"));
        }
    }

    #[test]
    fn a_hook_that_fails_is_quoted_and_one_that_hangs_is_ended() {
        let said = come_of("echo first >&2; echo no such zone >&2; exit 3", HookVerb::Present).0;
        let said = said.unwrap_err();
        assert!(
            said.contains("present *.a.example` failed (exit status: 3): no such zone"),
            "{said}"
        );
        let said = come_of("exit 1", HookVerb::Present).0.unwrap_err();
        assert!(said.ends_with("no message"), "{said}");
        let said = come_of("exec sleep 100", HookVerb::Cleanup).0.unwrap_err();
        assert!(said.ends_with("took longer than 1 s"), "{said}");
    }
}
