use std::fs;
use std::process::Command;
use std::sync::Barrier;

use super::*;

#[test]
fn the_data_folder_comes_from_the_environment() {
    let home = Some(PathBuf::from("/home/ada"));
    let from = |set: &[(&str, &str)]| {
        let set: Vec<(String, PathBuf)> =
            set.iter().map(|(name, path)| ((*name).to_owned(), path.into())).collect();
        let variable =
            move |name: &str| set.iter().find(|(set, _)| set == name).map(|(_, path)| path.clone());
        data_folder(variable, home.clone())
    };
    assert_eq!(from(&[("HERMES_PEER_HOME", "/srv/hermes")]), Some("/srv/hermes".into()));
    #[cfg(target_os = "linux")]
    {
        assert_eq!(from(&[("XDG_DATA_HOME", "/data")]), Some("/data/hermes-peer".into()));
        assert_eq!(from(&[("XDG_DATA_HOME", "data")]), Some("/home/ada/.local/share/hermes-peer".into()));
        assert_eq!(data_folder(|_| None, None), None);
    }
}

#[test]
fn threads_that_start_together_get_one_authority() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("data/ca");
    let start = Barrier::new(8);
    let certificates: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    authority_in(&folder).unwrap().certificate().clone()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(certificates.windows(2).all(|pair| pair[0] == pair[1]));
}

/// What each of the processes below does: the test binary runs this test alone, in a folder given by the environment.
#[test]
fn whoever_asks_gets_the_authority_of_the_folder() {
    let folder = std::env::var_os("HERMES_PEER_TEST_AUTHORITY").map(PathBuf::from);
    let own = tempfile::tempdir().unwrap();
    let authority = authority_in(&folder.unwrap_or_else(|| own.path().join("ca"))).unwrap();
    println!("authority {}", crate::transport::facts::hex(authority.certificate()));
}

#[test]
fn processes_that_start_together_get_one_authority() {
    let root = tempfile::tempdir().unwrap();
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "transport::home::tests::whoever_asks_gets_the_authority_of_the_folder",
            ])
            .env("HERMES_PEER_TEST_AUTHORITY", root.path().join("ca"))
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let running: Vec<_> = (0..4).map(|_| start()).collect();
    let mut got: Vec<String> = running
        .into_iter()
        .map(|process| {
            let output = String::from_utf8(process.wait_with_output().unwrap().stdout).unwrap();
            output.split("authority ").last().unwrap().split_whitespace().next().unwrap().to_owned()
        })
        .collect();
    got.dedup();
    assert_eq!(got.len(), 1, "more than one authority was made");
    assert_eq!(
        got[0],
        crate::transport::facts::hex(authority_in(&root.path().join("ca")).unwrap().certificate())
    );
}

#[test]
fn a_process_that_was_killed_half_way_leaves_nothing_broken() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("ca");
    authority_in(&folder).unwrap();
    let key = fs::read(folder.join("ca.key")).unwrap();
    fs::remove_file(folder.join("ca.pem")).unwrap();
    let again = authority_in(&folder).unwrap();
    assert_eq!(fs::read(folder.join("ca.key")).unwrap(), key);
    assert!(Authority::open(&folder).unwrap().certificate() == again.certificate());
}

#[cfg(unix)]
#[test]
fn a_folder_that_others_can_enter_holds_no_authority() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("ca");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(authority_in(&folder).unwrap_err().to_string().contains("0700"));
}
