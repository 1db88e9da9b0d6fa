//! Addresses as a file gives them.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;

use super::value::Refused;

const FORMS: &str =
    "write a host and a port, such as `192.168.1.21:7502`, `host.example:7502` or `[fe80::1%eth0]:7502`";
/// Longest name that DNS has, in bytes.
const MAX_NAME: usize = 253;
/// Longest label of one.
const MAX_LABEL: usize = 63;

/// Refuses what is no host and port, with what would be right.
pub(super) fn check_endpoint(text: &str) -> Result<(), Refused> {
    match split(text)? {
        (_, Some(_)) => Ok(()),
        (_, None) => Err(Refused::new("has no port", FORMS)),
    }
}

/// Reads what others are told: an endpoint that they can dial. Without a port it has that of `listen`.
pub(super) fn advertised(text: &str, listen: SocketAddr) -> Result<String, Refused> {
    let (host, port) = split(text)?;
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    if address.is_ok_and(|address| address.is_unspecified()) {
        return Err(Refused::new(
            "is where to listen, and nobody can dial it",
            "write the address that others reach",
        ));
    }
    let own = (listen.port() != 0).then_some(listen.port());
    match port.or(own) {
        Some(port) => Ok(format!("{host}:{port}")),
        None => {
            Err(Refused::new("has no port, and `listen` has none either", "write the port that others dial"))
        }
    }
}

/// Reads where to listen: an address of this machine, port 0 for a free one.
pub(super) fn listen(text: &str) -> Result<SocketAddr, Refused> {
    let forms = "write an address of this machine and a port, such as `127.0.0.1:7501`, `0.0.0.0:7501` or `[::]:7501`";
    let is_digits = |port: &&str| port.bytes().all(|b| b.is_ascii_digit());
    let local = text.strip_prefix("localhost:").filter(is_digits);
    if let Some(port) = local.and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| match bare_ipv6(text) {
        Some(right) => Refused::new("has an IPv6 address without brackets", format!("write `{right}`")),
        None => Refused::new("is no address and port", forms),
    })
}

/// Host, brackets kept, and port.
fn split(text: &str) -> Result<(&str, Option<u16>), Refused> {
    if text.contains("://") {
        return Err(Refused::new("is a URL", FORMS));
    }
    if text.contains(['/', '?', '#', '@']) {
        return Err(Refused::new("has more than a host and a port", FORMS));
    }
    if let Some(right) = bare_ipv6(text) {
        return Err(Refused::new("has an IPv6 address without brackets", format!("write `{right}`")));
    }
    let (host, rest) = match text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((inner, rest)) => {
            let (address, scope) = inner.split_once('%').unwrap_or((inner, "-"));
            if address.parse::<Ipv6Addr>().is_err() || scope.is_empty() || !scope.bytes().all(is_name_byte) {
                return Err(Refused::new("has brackets around what is no IPv6 address", FORMS));
            }
            (&text[..inner.len() + 2], rest)
        }
        None => {
            let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            check_name(host)?;
            (host, rest)
        }
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => return Ok((host, None)),
        None => return Err(Refused::new("has something between host and port", FORMS)),
        Some(port) => port,
    };
    let is_number = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port) if port > 0 && is_number => Ok((host, Some(port))),
        _ => Err(Refused::new("has no port from 1 to 65535 after the colon", FORMS)),
    }
}

/// What `::1:7502` was meant to be, or `::1` with a port to be filled in.
fn bare_ipv6(text: &str) -> Option<String> {
    if text.starts_with('[') || text.matches(':').count() < 2 {
        return None;
    }
    let (host, port) = text.rsplit_once(':')?;
    let is_address = |text: &str| text.split('%').next().is_some_and(|text| text.parse::<Ipv6Addr>().is_ok());
    match port.parse::<u16>() {
        Ok(_) if is_address(host) => Some(format!("[{host}]:{port}")),
        _ => is_address(text).then(|| format!("[{text}]:7501")),
    }
}

fn check_name(host: &str) -> Result<(), Refused> {
    if host.is_empty() {
        return Err(Refused::new("has no host", FORMS));
    }
    let labels = host.strip_suffix('.').unwrap_or(host).split('.');
    let is_name = |label: &str| (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(is_name_byte);
    // A name whose last label is a number is an address to every resolver.
    let is_number = labels.clone().next_back().is_some_and(|label| label.bytes().all(|b| b.is_ascii_digit()));
    if host.len() > MAX_NAME || !labels.clone().all(is_name) || is_number && host.parse::<Ipv4Addr>().is_err()
    {
        return Err(Refused::new("has a host that is neither a name nor an address", FORMS));
    }
    Ok(())
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}
