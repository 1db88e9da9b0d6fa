use std::path::Path;

use super::*;

struct Folder {
    root: tempfile::TempDir,
    local: LocalFolder,
}

impl Folder {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let local = LocalFolder::open(root.path().join("run")).unwrap();
        Self { root, local }
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.local.path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn record(node: &str) -> NodeRecord {
    NodeRecord {
        node_id: node.parse().unwrap(),
        agent: "agent://default/support/nlu".parse().unwrap(),
        endpoint: "127.0.0.1:7501".parse().unwrap(),
        capabilities: vec!["demo.echo".parse().unwrap()],
        pid: 42,
        epoch: Epoch(1_796_069_168_000_000),
    }
}

#[test]
fn a_node_is_seen_while_it_lives_and_leaves_nothing() {
    let folder = Folder::new();
    let mut here = folder.local.announce(record("b")).unwrap();
    let other = folder.local.announce(record("a")).unwrap();
    assert_eq!(folder.local.scan().unwrap(), [record("a"), record("b")]);
    here.update(Vec::new()).unwrap();
    assert_eq!(folder.local.scan().unwrap()[1].capabilities, []);
    drop((here, other));
    assert_eq!(folder.local.scan().unwrap(), []);
    assert_eq!(folder.names(), [".lock"]);
}

#[test]
fn a_second_node_of_the_same_name_is_refused_with_the_process_of_the_first() {
    let folder = Folder::new();
    let first = folder.local.announce(record("a")).unwrap();
    let refused = folder.local.announce(record("a")).unwrap_err();
    assert!(matches!(&refused, LocalError::NodeTaken { pid: Some(42), .. }), "{refused}");
    assert!(refused.to_string().contains("`a` already runs on this machine (process 42)"), "{refused}");
    drop(first);
    folder.local.announce(record("a")).unwrap();
}

#[test]
fn what_a_dead_node_left_is_removed_by_whoever_meets_it() {
    let folder = Folder::new();
    folder.local.write(&record("dead")).unwrap();
    fs::write(folder.local.lock_path(&"dead".parse().unwrap()), "").unwrap();
    folder.local.write(&record("never-locked")).unwrap();
    assert_eq!(folder.local.scan().unwrap(), []);
    assert_eq!(folder.names(), [".lock"]);
    folder.local.write(&record("back")).unwrap();
    let _back = folder.local.announce(NodeRecord { pid: 43, ..record("back") }).unwrap();
    assert_eq!(folder.local.scan().unwrap()[0].pid, 43);
}

#[test]
fn what_is_no_record_is_passed_over() {
    let folder = Folder::new();
    let _alive: Vec<_> = ["a", "b", "c", "d"].map(|node| folder.local.announce(record(node)).unwrap()).into();
    let path = |node: &str| folder.local.record_path(&node.parse().unwrap());
    fs::write(path("a"), "{").unwrap();
    fs::write(path("b"), serde_json::to_vec(&record("somebody-else")).unwrap()).unwrap();
    let mut long = serde_json::to_vec(&record("c")).unwrap();
    long.resize(MAX_RECORD as usize + 1, b' ');
    fs::write(path("c"), long).unwrap();
    fs::write(folder.local.path.join("NOT A NODE.json"), "{}").unwrap();
    let mut newer = serde_json::to_value(record("d")).unwrap();
    newer["said_by_newer_nodes"] = 1.into();
    fs::write(path("d"), newer.to_string()).unwrap();
    assert_eq!(folder.local.scan().unwrap(), [record("d")]);
}

#[test]
fn a_record_that_nobody_would_read_is_not_written() {
    let folder = Folder::new();
    let mut here = folder.local.announce(record("a")).unwrap();
    let many = (0..6000).map(|n| format!("demo.echo{n}").parse().unwrap()).collect();
    assert!(matches!(here.update(many), Err(LocalError::TooLarge { .. })));
    assert_eq!(folder.local.scan().unwrap(), [record("a")]);
}

#[test]
fn a_folder_with_too_many_records_is_read_in_part() {
    let folder = Folder::new();
    let text = serde_json::to_vec(&record("a")).unwrap();
    for n in 0..MAX_RECORDS + 50 {
        fs::write(folder.local.path.join(format!("n{n}.json")), &text).unwrap();
    }
    assert_eq!(folder.local.scan().unwrap(), []);
    assert_eq!(folder.names().len(), 51, "the first thousand were looked at, and removed");
}

#[cfg(unix)]
#[test]
fn a_folder_that_others_can_enter_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let open = folder.root.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = LocalFolder::open(open).unwrap_err().to_string();
    assert!(refused.contains("0700") && refused.contains("HERMES_PEER_RUNTIME"), "{refused}");
}

#[test]
fn the_runtime_folder_comes_from_the_environment() {
    let from = |set: &'static str, value: &'static str| {
        runtime_folder(move |name| (name == set).then(|| PathBuf::from(value)))
    };
    assert_eq!(from("HERMES_PEER_RUNTIME", "/run/x"), Path::new("/run/x"));
    assert_eq!(from("XDG_RUNTIME_DIR", "/run/user/1"), Path::new("/run/user/1/hermes-peer"));
    #[cfg(target_os = "linux")]
    assert!(from("XDG_RUNTIME_DIR", "relative").to_str().unwrap().starts_with("/tmp/hermes-peer-"));
}
