//! Where a node can be dialled: a host and a port, as written in a configuration file.

use std::fmt;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

/// Longest host name of the DNS, in bytes.
const MAX_HOST: usize = 253;
/// Longest part of a host name between two dots, in bytes.
const MAX_LABEL: usize = 63;

/// `host:port`. The host is a name, an IPv4 address, or an IPv6 address in brackets, with its zone where it needs one
/// (`[fe80::1%eth0]:7502`). Names are resolved at every dial, never before.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    host: Arc<str>,
    port: u16,
}

/// Text that is no endpoint, and what it should look like.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no endpoint: {rule}")]
pub struct InvalidEndpoint {
    given: String,
    rule: String,
}

impl InvalidEndpoint {
    /// What would be right.
    pub fn rule(&self) -> &str {
        &self.rule
    }
}

impl Endpoint {
    /// The host, an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The socket address, if the host is an address and needs no resolver.
    pub fn address(&self) -> Option<SocketAddr> {
        self.host.parse().ok().map(|ip| SocketAddr::new(ip, self.port))
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        let host = match address {
            SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
            SocketAddr::V4(_) | SocketAddr::V6(_) => address.ip().to_string(),
        };
        Self { host: host.into(), port: address.port() }
    }
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(given: &str) -> Result<Self, InvalidEndpoint> {
        let text = given.trim();
        parse(text).map_err(|rule| InvalidEndpoint {
            // The text goes into logs: one line, and no more of it than helps.
            given: text.chars().take(80).flat_map(char::escape_debug).collect(),
            rule,
        })
    }
}

fn parse(text: &str) -> Result<Endpoint, String> {
    if let Some((scheme, rest)) = text.split_once("://") {
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        return Err(format!("no `{scheme}://` before it, write `host:port`, such as `{}`", with_port(rest)));
    }
    if text.contains(['/', '?', '#']) {
        let rest = text.split(['/', '?', '#']).next().unwrap_or_default();
        return Err(format!("nothing follows the port, write `host:port`, such as `{}`", with_port(rest)));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) =
                rest.split_once(']').ok_or("a `]` ends the IPv6 address, such as `[::1]:7502`")?;
            let port = rest
                .strip_prefix(':')
                .ok_or_else(|| format!("the port is missing, write `[{host}]:7502`"))?;
            (parse_v6(host)?, port)
        }
        None => {
            let (host, port) = text
                .rsplit_once(':')
                .ok_or_else(|| format!("the port is missing, write `{}`", with_port(text)))?;
            if host.contains(':') {
                return Err(bracketed(text, host, port));
            }
            (parse_host(host)?, port)
        }
    };
    Ok(Endpoint { host: host.into(), port: parse_port(host, port)? })
}

/// What was probably meant by colons without brackets.
fn bracketed(text: &str, host: &str, port: &str) -> String {
    let is_v6 = |text: &str| parse_v6(text).is_ok();
    if is_v6(host) && port.parse::<u16>().is_ok() {
        format!("an IPv6 address stands in brackets, write `[{host}]:{port}`")
    } else if is_v6(text) {
        format!("an IPv6 address stands in brackets and the port is missing, write `[{text}]:7502`")
    } else {
        "one `:` between host and port, write `host:port`, such as `192.168.1.21:7502` or `[::1]:7502`"
            .to_owned()
    }
}

fn with_port(host: &str) -> String {
    match host {
        "" => "localhost:7502".to_owned(),
        host if host.contains(':') => host.to_owned(),
        host => format!("{host}:7502"),
    }
}

fn parse_v6(host: &str) -> Result<&str, String> {
    let (address, zone) = host.split_once('%').map_or((host, None), |(address, zone)| (address, Some(zone)));
    let is_zone =
        |zone: &str| !zone.is_empty() && zone.len() <= 32 && zone.bytes().all(|b| b.is_ascii_graphic());
    if address.parse::<Ipv6Addr>().is_err() {
        return Err("between `[` and `]` stands an IPv6 address, such as `[::1]:7502`".to_owned());
    }
    if zone.is_some_and(|zone| !is_zone(zone)) {
        return Err(format!("after `%` stands a network interface, such as `[{address}%eth0]:7502`"));
    }
    Ok(host)
}

fn parse_host(host: &str) -> Result<&str, String> {
    if host.is_empty() {
        return Err("the host is missing, write `host:port`, such as `localhost:7502`".to_owned());
    }
    let labels = host.strip_suffix('.').unwrap_or(host);
    if host.len() > MAX_HOST || !labels.split('.').all(is_label) {
        return Err(
            "a host is a name of a-z, 0-9, `-`, `_` and dots (others as `xn--…`) or an address, such as \
                    `localhost:7502` or `192.168.1.21:7502`"
                .to_owned(),
        );
    }
    let last = labels.rsplit('.').next().unwrap_or_default();
    // Resolvers take `1.2` or `0300.1.1.1` for addresses that nobody meant.
    if last.bytes().all(|b| b.is_ascii_digit()) && host.parse::<Ipv4Addr>().is_err() {
        return Err("an IPv4 address is four numbers from 0 to 255, such as `192.168.1.21:7502`".to_owned());
    }
    Ok(host)
}

fn is_label(label: &str) -> bool {
    (1..=MAX_LABEL).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn parse_port(host: &str, port: &str) -> Result<u16, String> {
    let is_digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port) if is_digits && port > 0 => Ok(port),
        _ if port.is_empty() => Err(format!("the port is missing after `:`, write `{host}:7502`")),
        _ => Err(format!("`{port}` is no port, a port is a number from 1 to 65535, such as `{host}:7502`")),
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for Endpoint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Endpoint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_endpoint_is_given_back_as_written() {
        // FC-017
        for good in [
            "localhost:7502",
            "[::1]:7502",
            "[fe80::1%eth0]:7502",
            "B.TEST:7502",
            "10.0.0.5:1",
            "my_box.lan.:65535",
        ] {
            assert_eq!(good.parse::<Endpoint>().map(|e| e.to_string()), Ok(good.to_owned()));
        }
        assert_eq!(" b:7502\t".parse::<Endpoint>().unwrap().to_string(), "b:7502");
    }

    #[test]
    fn a_wrong_endpoint_is_answered_with_the_right_one() {
        // FC-017
        for (given, expected) in [
            ("::1:7502", "write `[::1]:7502`"),
            ("::1", "write `[::1]:7502`"),
            ("[::1]", "write `[::1]:7502`"),
            ("[::1:7502", "a `]` ends"),
            ("[b]:7502", "an IPv6 address"),
            ("[fe80::1%]:7502", "[fe80::1%eth0]:7502"),
            ("b", "write `b:7502`"),
            ("b:", "write `b:7502`"),
            ("b:0", "1 to 65535"),
            ("b:70000", "1 to 65535"),
            ("b:+80", "1 to 65535"),
            ("https://b:7502", "such as `b:7502`"),
            ("https://b/x", "such as `b:7502`"),
            ("b:7502/x", "such as `b:7502`"),
            ("", "write `localhost:7502`"),
            (":7502", "the host is missing"),
            ("a b:7502", "a host is a name"),
            ("知識:7502", "xn--"),
            ("-b:7502", "a host is a name"),
            ("300.1.1.1:7502", "four numbers"),
            ("1.2:7502", "four numbers"),
            ("a:b:c", "one `:`"),
        ] {
            let refused = given.parse::<Endpoint>().unwrap_err().to_string();
            assert!(refused.contains(expected), "{given}: {refused}");
        }
    }

    #[test]
    fn a_socket_address_keeps_its_zone() {
        let address = SocketAddr::V6(std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 7502, 0, 3));
        let endpoint = Endpoint::from(address);
        assert_eq!(endpoint.to_string(), "[fe80::1%3]:7502");
        assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
    }
}
