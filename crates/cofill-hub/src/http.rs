//! Requests: redirects followed by hand, so that a token never goes to another host, and failures sorted into those that pass and
//! those that do not.

use crate::download::Event;
use crate::error::{Error, Result};
use crate::settings::Token;
use crate::url::{Origin, join};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use ureq::http::HeaderMap;

/// Redirects that are followed in one request.
const MOST_REDIRECTS: usize = 10;
/// Failures in a row, without a byte of progress in between, after which nobody tries again.
const MOST_FAILURES: u32 = 6;
/// Failures of one file altogether: a server that gives a few bytes per connection must not keep us for ever.
const MOST_ATTEMPTS: u32 = 1000;
/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause that a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A client and what it needs from its surroundings.
pub(crate) struct Http {
    agent: ureq::Agent,
    /// Pauses; a test passes the time otherwise.
    pub(crate) pause: Box<dyn Fn(Duration) + Send + Sync>,
    /// While set, nothing goes on.
    pub(crate) stop: Arc<AtomicBool>,
    /// Whether anybody has answered yet. Until then, a host that cannot be found is a machine without a network.
    reached: AtomicBool,
}

/// What a request is about, for messages.
pub(crate) struct Subject<'a> {
    pub(crate) what: &'a str,
    /// Where a user would put the files by hand.
    pub(crate) place: &'a Path,
    /// The variable that names another server.
    pub(crate) mirror: &'static str,
    /// What a refusal means here.
    pub(crate) refused: &'a dyn Fn(&Refusal) -> Error,
}

/// An answer of 4xx that will not change.
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) host: String,
    pub(crate) url: String,
    /// What the hub calls it: `RepoNotFound`, `GatedRepo`, ...
    pub(crate) code: String,
}

#[derive(Default)]
pub(crate) struct Request<'a> {
    pub(crate) url: &'a str,
    /// Sent to the host of `url` and to nobody else.
    pub(crate) token: Option<&'a Token>,
    /// The first byte that is wanted.
    pub(crate) from: u64,
    /// With `from`: only if the content still is this one. For the host of `url` alone, since others count otherwise.
    pub(crate) unchanged: Option<&'a str>,
    pub(crate) accept: Option<&'a str>,
    /// Headers without a body.
    pub(crate) head: bool,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// What the host of the first address said of the file before it sent us on.
    pub(crate) linked_etag: Option<String>,
    pub(crate) linked_size: Option<u64>,
    pub(crate) url: String,
    pub(crate) body: ureq::Body,
}

/// Why there is no answer.
pub(crate) enum Failure {
    /// It may go better the next time, after a pause that the server may have chosen.
    Passing {
        why: String,
        pause: Option<Duration>,
        host: String,
    },
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Final(error)
    }
}

impl Http {
    pub(crate) fn new() -> Http {
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("cofill/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(Duration::from_secs(90)))
            // A stalled connection is a broken one; a slow one is fine.
            .timeout_per_read(Some(Duration::from_secs(90)));
        if let Some(roots) = own_roots() {
            config = config.tls_config(ureq::tls::TlsConfig::builder().root_certs(roots).build());
        }
        Http {
            agent: config.build().new_agent(),
            pause: Box::new(std::thread::sleep),
            stop: Arc::default(),
            reached: AtomicBool::new(false),
        }
    }

    pub(crate) fn check_stop(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Asks once. What comes back is 200, 206 or 416; everything else is a failure.
    pub(crate) fn send(&self, request: &Request<'_>, subject: &Subject<'_>) -> Result<Answer, Failure> {
        let odd = |url: &str, problem: String| Failure::Final(Error::BadAnswer { url: url.into(), problem });
        let no_address = |url: &str| odd(url, "it is no address of http or https".into());
        let first = Origin::of(request.url).ok_or_else(|| no_address(request.url))?;
        let (mut url, mut linked_etag, mut linked_size) = (request.url.to_owned(), None, None);
        for _ in 0..=MOST_REDIRECTS {
            self.check_stop()?;
            let here = Origin::of(&url).ok_or_else(|| no_address(&url))?;
            if first.scheme == "https" && here.scheme != "https" {
                return Err(odd(request.url, format!("it leads from https to {}", shown(&url))));
            }
            let at_home = here == first;
            let mut builder = if request.head { self.agent.head(&url) } else { self.agent.get(&url) };
            // Compressed bytes have other lengths and other ranges.
            builder = builder.header("accept-encoding", "identity");
            if let Some(accept) = request.accept {
                builder = builder.header("accept", accept);
            }
            if let Some(token) = request.token.filter(|_| at_home) {
                builder = builder.header("authorization", format!("Bearer {}", token.0));
            }
            if request.from > 0 {
                builder = builder.header("range", format!("bytes={}-", request.from));
                if let Some(etag) = request.unchanged.filter(|_| at_home) {
                    builder = builder.header("if-range", format!("\"{etag}\""));
                }
            }
            let response = builder.call().map_err(|error| self.no_answer(&error, &here, subject))?;
            self.reached.store(true, Ordering::Relaxed);
            let (parts, body) = response.into_parts();
            let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
            if at_home {
                linked_etag = linked_etag.or_else(|| text("x-linked-etag").map(str::to_owned));
                linked_size = linked_size.or_else(|| text("x-linked-size").and_then(|size| size.parse().ok()));
            }
            let status = parts.status.as_u16();
            match status {
                200 | 206 | 416 => {
                    return Ok(Answer { status, headers: parts.headers, linked_etag, linked_size, url, body });
                }
                301 | 302 | 303 | 307 | 308 => {
                    let to = text("location").and_then(|to| join(&url, to));
                    url = to.ok_or_else(|| odd(&url, format!("{status} without saying where to")))?;
                }
                408 | 425 | 429 | 500..=599 => {
                    let pause = text("retry-after").and_then(|value| retry_after(value, SystemTime::now()));
                    return Err(Failure::Passing {
                        why: format!("{} says {status}", here.host),
                        pause,
                        host: here.host,
                    });
                }
                _ => {
                    let code = text("x-error-code").unwrap_or_default().to_owned();
                    let refusal = Refusal { status, host: here.host, url: shown(&url).into(), code };
                    return Err(Failure::Final((subject.refused)(&refusal)));
                }
            }
        }
        Err(odd(request.url, format!("more than {MOST_REDIRECTS} redirects")))
    }

    /// A text, asked for until it comes, of at most so many bytes.
    pub(crate) fn text(
        &self,
        request: &Request<'_>,
        most: u64,
        subject: &Subject<'_>,
        report: &mut dyn FnMut(&Event),
    ) -> Result<Vec<u8>> {
        let mut patience = Patience::default();
        loop {
            let failure = match self.send(request, subject) {
                Ok(answer) => {
                    let url = shown(&answer.url).to_owned();
                    let mut bytes = Vec::new();
                    match answer.body.into_reader().take(most + 1).read_to_end(&mut bytes) {
                        Ok(_) if bytes.len() as u64 > most => {
                            let problem = format!("more than {most} bytes");
                            return Err(Error::BadAnswer { url, problem });
                        }
                        Ok(_) => return Ok(bytes),
                        Err(error) => Failure::Passing { why: error.to_string(), pause: None, host: String::new() },
                    }
                }
                Err(failure) => failure,
            };
            patience.after(self, failure, false, subject, report)?;
        }
    }

    /// What it means that nobody answered.
    fn no_answer(&self, error: &ureq::Error, here: &Origin, subject: &Subject<'_>) -> Failure {
        use std::io::ErrorKind as Kind;
        use ureq::{Error as E, Timeout};
        let host = format!("{}://{}", here.scheme, here.host);
        let unreachable = |why: String| {
            let place = subject.place.to_owned();
            Failure::Final(Error::Unreachable { host: host.clone(), why, place, mirror: subject.mirror })
        };
        let no_contact = match error {
            E::HostNotFound | E::ConnectionFailed | E::Timeout(Timeout::Connect | Timeout::Resolve) => true,
            // A name that cannot be resolved has no kind of its own, so these are the ones that a server may cause.
            E::Io(io) => !matches!(
                io.kind(),
                Kind::ConnectionReset
                    | Kind::ConnectionAborted
                    | Kind::BrokenPipe
                    | Kind::UnexpectedEof
                    | Kind::TimedOut
            ),
            // These do not pass by themselves: certificates, proxies.
            E::Tls(_) | E::Pem(_) | E::Rustls(_) | E::InvalidProxyUrl | E::BadUri(_) | E::Http(_) => {
                return unreachable(error.to_string());
            }
            _ => false,
        };
        if no_contact && !self.reached.load(Ordering::Relaxed) {
            return unreachable(error.to_string());
        }
        Failure::Passing { why: error.to_string(), pause: None, host: here.host.clone() }
    }
}

/// How often something was tried.
#[derive(Default)]
pub(crate) struct Patience {
    in_a_row: u32,
    altogether: u32,
}

impl Patience {
    /// After a failure: pauses, or gives up. `progressed` says that some bytes came before it.
    pub(crate) fn after(
        &mut self,
        http: &Http,
        failure: Failure,
        progressed: bool,
        subject: &Subject<'_>,
        report: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        let (why, asked, host) = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Passing { why, pause, host } => (why, pause, host),
        };
        let what = subject.what.to_owned();
        self.in_a_row = if progressed { 1 } else { self.in_a_row + 1 };
        self.altogether += 1;
        if self.in_a_row >= MOST_FAILURES || self.altogether >= MOST_ATTEMPTS {
            let times = if self.in_a_row >= MOST_FAILURES { self.in_a_row } else { self.altogether };
            return Err(Error::GaveUp { what, times, why });
        }
        let pause = asked.unwrap_or(FIRST_PAUSE * 2u32.pow(self.in_a_row - 1));
        if pause > LONGEST_PAUSE {
            return Err(Error::Busy { what, host, wait: pause });
        }
        report(&Event::Retrying { what, why, pause });
        http.check_stop()?;
        (http.pause)(pause);
        http.check_stop()
    }
}

/// An address without its query: signatures of a CDN are nothing to print.
pub(crate) fn shown(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

/// The certificates that `SSL_CERT_FILE` names, for networks that look into everybody's connections; otherwise Mozilla's, which are
/// in this program.
fn own_roots() -> Option<ureq::tls::RootCerts> {
    let path = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty())?;
    let pem = std::fs::read(path).ok()?;
    let certificates: Vec<_> = ureq::tls::parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    (!certificates.is_empty()).then(|| certificates.into())
}

/// `Retry-After`: seconds, or a date as in `Wed, 21 Oct 2015 07:28:00 GMT`.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = value.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words.as_slice() else { return None };
    let number = |text: &str| text.parse::<u64>().ok();
    let (day, year) = (number(day)?, number(year).filter(|year| (1970..10_000).contains(year))?);
    let month = MONTHS.iter().position(|known| known == month)? as u64;
    let clock: Vec<u64> = time.split(':').map(number).collect::<Option<_>>()?;
    let [hour, minute, second] = clock.as_slice() else { return None };
    // Days since 1970, counted in years that begin in March, so that leap days come last.
    let (y, m) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day.checked_sub(1)?;
    let seconds = days.checked_sub(719_468)? * 86_400 + hour * 3600 + minute * 60 + second;
    let now = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(Duration::from_secs(seconds.saturating_sub(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_when_to_come_back_in_seconds_or_as_a_date() {
        // `date -d 'Wed, 21 Oct 2015 07:28:00 GMT' +%s` is 1445412480.
        let now = UNIX_EPOCH + Duration::from_secs(1_445_412_400);
        let after = |value: &str| retry_after(value, now).map(|pause| pause.as_secs());
        assert_eq!(after("7"), Some(7));
        assert_eq!(after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(80));
        assert_eq!(after("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800 - 1_445_412_400));
        assert_eq!(after("Wed, 21 Oct 2015 07:00:00 GMT"), Some(0), "already over");
        for odd in ["", "soon", "-1", "Wed, 0 Oct 2015 07:28:00 GMT", "Wed, 21 Okt 2015 07:28:00 GMT"] {
            assert_eq!(after(odd), None, "{odd}");
        }
    }
}
