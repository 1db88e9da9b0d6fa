use std::io;
use std::sync::Arc;
use std::time::Instant as Clock;

use hermes_peer_proto::wire::ErrorCode;
use parking_lot::Mutex;

use super::*;

/// Far more than any of these programs takes, far less than their `sleep 600`.
const SOON: Duration = Duration::from_secs(30);

fn program(command: &[&str]) -> Program {
    Program::new(CapabilityInfo::new("demo.run".parse().unwrap()), command.iter().copied()).unwrap()
}

fn shell(script: &str) -> Program {
    program(&["sh", "-c", script])
}

fn streaming(script: &str) -> Program {
    let mut program = shell(script);
    program.info.streams = true;
    program
}

fn call() -> ProgramCall {
    ProgramCall {
        caller: "agent://default/support/caller".parse().unwrap(),
        session: None,
        trace: None,
        time_left: None,
        cancelled: CancellationToken::new(),
    }
}

async fn value(program: &Program, input: impl Into<Bytes>) -> Result<String, ProgramError> {
    match program.run(input.into(), call()).await? {
        ProgramOutput::Value(value) => Ok(String::from_utf8(value.to_vec()).unwrap()),
        ProgramOutput::Lines(lines) => panic!("{lines:?}"),
    }
}

async fn lines(program: &Program) -> (Vec<String>, Option<ProgramError>) {
    let mut lines = stream(program, call()).await;
    let mut values = Vec::new();
    while let Some(line) = lines.next().await {
        match line {
            Ok(value) => values.push(String::from_utf8(value.to_vec()).unwrap()),
            Err(error) => {
                assert!(lines.next().await.is_none(), "an error is the last thing that comes");
                return (values, Some(error));
            }
        }
    }
    (values, None)
}

async fn stream(program: &Program, call: ProgramCall) -> ProgramLines {
    match program.run(Bytes::new(), call).await.unwrap() {
        ProgramOutput::Lines(lines) => lines,
        ProgramOutput::Value(value) => panic!("{value:?}"),
    }
}

/// Waits until the process whose number is in the file runs no longer.
async fn ended(pid_file: &Path) -> bool {
    let started = Clock::now();
    while started.elapsed() < SOON {
        let pid = std::fs::read_to_string(pid_file).unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        let is_zombie =
            |stat: String| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z'));
        if !pid.trim().is_empty() && stat.map_or(true, is_zombie) {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[tokio::test]
async fn a_program_gets_the_input_and_its_output_is_the_result() {
    assert_eq!(value(&program(&["cat"]), " {\"hello\": \"mesh\"}\n").await.unwrap(), r#"{"hello": "mesh"}"#);
}

#[tokio::test]
async fn input_and_output_larger_than_a_pipe_block_nobody() {
    let large = format!("\"{}\"", "x".repeat(4 * 1024 * 1024));
    assert_eq!(value(&program(&["cat"]), large.clone()).await.unwrap(), large);
    assert_eq!(value(&shell("echo 1"), large.clone()).await.unwrap(), "1", "the input is not read");
    assert_eq!(value(&shell("exec <&-; echo 1"), large).await.unwrap(), "1", "the input is closed");
}

#[tokio::test]
async fn a_failure_names_the_status_or_the_signal() {
    for (script, message) in [
        ("exit 3", "the program ended with exit status 3"),
        ("echo 1; exit 4", "the program ended with exit status 4"),
        ("echo no json; exit 5", "the program ended with exit status 5"),
        ("kill -9 $$", "the program ended with signal 9"),
    ] {
        let error = value(&shell(script), "{}").await.unwrap_err();
        assert_eq!(
            (error.public_message(), error.code()),
            (message.into(), ErrorCode::HandlerFailed),
            "{script}"
        );
    }
}

#[tokio::test]
async fn a_result_is_exactly_one_json_value() {
    for script in ["echo no", "echo 1 2", "printf '{'", r"printf '\377'"] {
        let error = value(&shell(script), "{}").await.unwrap_err();
        assert!(matches!(error, ProgramError::NotJson { line: 1, .. }), "{script}: {error}");
        assert_eq!(error.code(), ErrorCode::InvalidOutput);
    }
    assert!(matches!(value(&shell(":"), "{}").await, Err(ProgramError::Nothing)));
}

#[tokio::test]
async fn a_stream_is_one_value_a_line_and_its_end_is_told() {
    let (values, error) = lines(&streaming(r#"printf '1\n\n {"a": 2}\r\n3'"#)).await;
    assert_eq!((values, error.is_none()), (vec!["1".into(), r#"{"a": 2}"#.into(), "3".into()], true));
    assert!(lines(&streaming(":")).await.1.is_none(), "an empty stream is no error");
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_in_an_error_after_its_values() {
    let (values, error) = lines(&streaming("echo 1; echo 2; exit 3")).await;
    assert_eq!(values, ["1", "2"]);
    assert_eq!(error.unwrap().to_string(), "the program ended with exit status 3");

    let (values, error) = lines(&streaming("echo 1; echo no; sleep 600")).await;
    assert_eq!(values, ["1"]);
    assert!(matches!(error, Some(ProgramError::NotJson { line: 2, .. })), "{error:?}");
}

#[tokio::test]
async fn a_reader_slower_than_the_program_misses_nothing() {
    let (values, error) = lines(&streaming("i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo $i; done")).await;
    assert!(error.is_none());
    assert_eq!(values, (1..=2_000).map(|i| i.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn output_without_end_is_cut_off() {
    let error = value(&program(&["yes"]).max_output(100_000), "").await.unwrap_err();
    assert!(matches!(error, ProgramError::TooLarge { limit: 100_000, line: false }), "{error}");
    let endless_line = "cat /dev/zero";
    let (values, error) = lines(&streaming(endless_line).max_output(100_000)).await;
    assert_eq!(values.len(), 0);
    assert_eq!(error.unwrap().to_string(), "the program printed more than 100000 bytes in a line");
}

#[tokio::test]
async fn at_its_deadline_the_whole_group_ends() {
    let dir = tempfile::tempdir().unwrap();
    let program = shell("sleep 600 & echo $! > pid; wait").dir(dir.path()).timeout(Duration::from_secs(1));
    let started = Clock::now();
    let error = value(&program, "").await.unwrap_err();
    assert_eq!(error.to_string(), "the program was ended after 1000 ms");
    assert_eq!(error.code(), ErrorCode::DeadlineExceeded);
    assert!(started.elapsed() < SOON);
    assert!(ended(&dir.path().join("pid")).await);
}

#[tokio::test]
async fn the_callers_deadline_counts_if_it_comes_first() {
    let call = ProgramCall { time_left: Some(Duration::from_millis(100)), ..call() };
    let error = shell("sleep 600").timeout(SOON).run(Bytes::new(), call).await.unwrap_err();
    assert!(
        matches!(error, ProgramError::Deadline { after } if after == Duration::from_millis(100)),
        "{error}"
    );
}

#[tokio::test]
async fn a_cancelled_call_ends_a_program_that_does_not_want_to_end() {
    // FC-040
    let dir = tempfile::tempdir().unwrap();
    let program =
        streaming(r#"trap "" TERM; sleep 600 & echo $! > pid; echo 1; wait; sleep 600"#).dir(dir.path());
    let call = call();
    let cancelled = call.cancelled.clone();
    let mut lines = stream(&program, call).await;
    assert_eq!(lines.next().await.unwrap().unwrap(), "1");
    let started = Clock::now();
    cancelled.cancel();
    assert!(matches!(lines.next().await, Some(Err(ProgramError::Cancelled))));
    assert!(started.elapsed() < SOON);
    assert!(ended(&dir.path().join("pid")).await);
}

#[tokio::test]
async fn a_program_asked_to_end_may_tidy_up() {
    let dir = tempfile::tempdir().unwrap();
    let program = streaming("trap 'echo done > tidied; exit' TERM; echo 1; sleep 600 & wait").dir(dir.path());
    let call = call();
    let cancelled = call.cancelled.clone();
    let mut lines = stream(&program, call).await;
    lines.next().await.unwrap().unwrap();
    cancelled.cancel();
    assert!(matches!(lines.next().await, Some(Err(ProgramError::Cancelled))));
    assert_eq!(std::fs::read_to_string(dir.path().join("tidied")).unwrap(), "done\n");
}

#[tokio::test]
async fn a_program_ends_when_nobody_wants_its_output() {
    // FC-040
    let dir = tempfile::tempdir().unwrap();
    let script = "echo $$ > pid; echo 1; sleep 600; echo 2";
    let mut lines = stream(&streaming(script).dir(dir.path()), call()).await;
    lines.next().await.unwrap().unwrap();
    drop(lines);
    assert!(ended(&dir.path().join("pid")).await);

    let dir = tempfile::tempdir().unwrap();
    let program = shell(script).dir(dir.path());
    let pid = dir.path().join("pid");
    tokio::select! {
        result = value(&program, "") => panic!("{result:?}"),
        () = async { while std::fs::read(&pid).unwrap_or_default().is_empty() { tokio::task::yield_now().await } } => {}
    }
    assert!(ended(&pid).await);
}

#[test]
fn a_program_ends_when_the_runtime_stops() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let program = streaming("sleep 600 & echo $! > pid; echo 1; wait").dir(dir.path());
    let lines = runtime.block_on(async {
        let mut lines = stream(&program, call()).await;
        lines.next().await.unwrap().unwrap();
        lines
    });
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(ended(&dir.path().join("pid"))));
    let mut lines = lines;
    assert!(matches!(runtime.block_on(lines.next()), Some(Err(ProgramError::Abandoned))));
}

#[tokio::test]
async fn what_a_program_leaves_running_ends_with_it_and_holds_up_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let program = shell("sleep 600 & echo $! > pid; echo 1").dir(dir.path()).timeout(SOON);
    assert_eq!(value(&program, "").await.unwrap(), "1");
    assert!(ended(&dir.path().join("pid")).await);
}

#[tokio::test]
async fn who_has_left_the_group_and_holds_the_pipe_open_holds_up_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let program =
        shell("setsid sh -c 'echo $$ > pid; exec sleep 600' & until [ -s pid ]; do :; done; echo 1")
            .dir(dir.path())
            .timeout(SOON);
    assert_eq!(value(&program, "").await.unwrap(), "1");
    let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn the_call_stands_in_the_environment() {
    // FC-077
    let script = r#"printf '"%s"\n' "$HERMES_CAPABILITY" "$HERMES_CALLER" "$HERMES_SESSION" "$HERMES_TIME_LEFT_MS" \
        "$TRACEPARENT" "$TRACESTATE" "$OWN""#;
    let call = ProgramCall {
        session: Some(SessionId::from_bytes([0xab; 16])),
        trace: Some(Trace { trace_id: [1; 16], parent_id: [2; 8], flags: 1, state: "a=b".into() }),
        time_left: Some(SOON),
        ..call()
    };
    let mut lines = stream(&streaming(script).env("OWN", "own"), call).await;
    for expected in [
        "demo.run",
        "agent://default/support/caller",
        "abababababababababababababababab",
        "30000",
        "00-01010101010101010101010101010101-0202020202020202-01",
        "a=b",
        "own",
    ] {
        assert_eq!(lines.next().await.unwrap().unwrap(), format!("\"{expected}\""));
    }
    assert!(lines.next().await.is_none());
}

#[tokio::test]
async fn a_trace_state_that_fits_no_environment_is_left_out() {
    // FC-077
    for state in ["a=\0", "a=\n", "ü"] {
        let trace = Trace { trace_id: [1; 16], parent_id: [2; 8], flags: 0, state: state.into() };
        let call = ProgramCall { trace: Some(trace), ..call() };
        let program = shell(r#"echo "\"${TRACESTATE-none} ${HERMES_SESSION-none}\"""#);
        match program.run(Bytes::new(), call).await.unwrap() {
            ProgramOutput::Value(value) => assert_eq!(value, "\"none none\""),
            ProgramOutput::Lines(lines) => panic!("{lines:?}"),
        }
    }
}

#[tokio::test]
async fn the_memory_limit_holds_before_the_program_begins() {
    let program = shell("ulimit -v").memory(64 * 1024 * 1024);
    assert_eq!(value(&program, "").await.unwrap(), "65536");
    let hungry = shell("exec dd if=/dev/zero of=/dev/null bs=200M count=1").memory(64 * 1024 * 1024);
    assert!(matches!(value(&hungry, "").await, Err(ProgramError::Failed { .. })));
    let odd = program_with_odd_arguments().memory(1 << 30);
    assert_eq!(value(&odd, "").await.unwrap(), r#"["a b", "$HOME", "'"]"#);
}

fn program_with_odd_arguments() -> Program {
    program(&["printf", r#"["%s", "%s", "%s"]"#, "a b", "$HOME", "'"])
}

#[tokio::test]
async fn a_program_that_is_missing_or_cannot_run_is_refused_at_start_and_at_each_call() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plain"), "#!/bin/sh\necho 1\n").unwrap();
    let missing = program(&["no-such-program-7f3a"]);
    assert_eq!(missing.check().unwrap_err().to_string(), "program `no-such-program-7f3a` is not found");
    let error = value(&missing, "").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::HandlerFailed);

    for name in ["./plain", "./"] {
        let refused = program(&[name]).dir(dir.path()).check();
        assert!(matches!(refused, Err(ProgramError::NotExecutable { .. })), "{name}");
    }
    let error = value(&program(&["./plain"]).dir(dir.path()), "").await.unwrap_err();
    assert!(error.to_string().contains("chmod +x"));
    assert!(!error.public_message().contains("plain"), "the caller sees no path");

    let own_path = program(&["plain"]).env("PATH", dir.path());
    assert!(matches!(own_path.check(), Err(ProgramError::NotExecutable { .. })));
    assert!(matches!(Program::new(own_path.info, [""; 0]), Err(ProgramError::NoCommand)));
    assert!(program(&["sh"]).check().unwrap().is_absolute());
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_a_program_says_goes_to_the_log_within_bounds() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let script = r#"echo first >&2
        head -c 10000 /dev/zero | tr '\0' '#' >&2; echo >&2
        i=0; while [ $i -lt 1500 ]; do i=$((i+1)); echo "again $i" >&2; done
        exit 3"#;
    value(&shell(script), "").await.unwrap_err();
    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    let line = log.lines().next().unwrap();
    assert!(line.contains("INFO") && line.contains("first") && line.contains("demo.run"), "{line}");
    assert_eq!(log.matches('#').count(), 4 * 1024, "a line is cut off");
    let said = log.lines().filter(|line| line.contains("again") && line.contains("INFO")).count();
    assert_eq!((said, log.contains("left_out=502")), (998, true), "1,000 lines of 1,502 are logged");
    let failure = log.lines().find(|line| line.contains("WARN")).unwrap();
    assert!(failure.contains("exit status 3") && failure.contains("again 1500"), "{failure}");
}
