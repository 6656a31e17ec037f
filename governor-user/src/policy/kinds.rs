//! How a scalar becomes a value of each type, and what is said where it can't.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use ipnet::IpNet;
use strum::VariantNames;

use super::error::{Wrong, one_line};
use super::reader::closest;
use super::units::{Factor, GoDuration, Percent};
use super::yaml::{Scalar, Style};

/// What YAML 1.1 readers (kubectl among them) make booleans of.
const BOOLEANS: [&str; 8] = ["true", "false", "yes", "no", "on", "off", "y", "n"];

fn is_boolean(scalar: &Scalar) -> bool {
    let text = scalar.text.to_ascii_lowercase();
    scalar.style == Style::Plain && BOOLEANS.contains(&text.as_str())
}

fn within<T: PartialOrd + Display>(value: T, bounds: &RangeInclusive<T>) -> Result<T, Wrong> {
    if bounds.contains(&value) {
        return Ok(value);
    }
    Err(Wrong::new(format!(
        "{value} is out of bounds: {} to {}",
        bounds.start(),
        bounds.end()
    )))
}

fn refuse_null(scalar: &Scalar) -> Result<(), Wrong> {
    match scalar.is_null() {
        true => {
            Err(Wrong::new("nothing: a value is wanted").hint("remove the key for the default"))
        }
        false => Ok(()),
    }
}

/// A duration within bounds.
pub fn duration(
    bounds: RangeInclusive<GoDuration>,
) -> impl Fn(&Scalar) -> Result<GoDuration, Wrong> {
    move |scalar| {
        refuse_null(scalar)?;
        let text = scalar.text.as_str();
        let value = text.parse().map_err(|why| {
            let wrong = Wrong::new(format!("{} is not a duration: {why}", one_line(text)));
            wrong.hint(match text.parse::<u32>() {
                Ok(number) => format!("write {number}s, or {number}ms"),
                Err(_) => "write it like 250ms, 10s or 1m30s".to_owned(),
            })
        })?;
        within(value, &bounds)
    }
}

/// A duration in whole seconds, as `Retry-After` can carry.
pub fn seconds(
    bounds: RangeInclusive<GoDuration>,
) -> impl Fn(&Scalar) -> Result<GoDuration, Wrong> {
    let duration = duration(bounds);
    move |scalar| {
        let value = duration(scalar)?;
        match value.get().subsec_nanos() {
            0 => Ok(value),
            _ => Err(Wrong::new(format!(
                "{value} is not a number of seconds: Retry-After carries whole ones"
            ))
            .hint(format!("write {}s", value.get().as_secs() + 1))),
        }
    }
}

/// A percentage within bounds.
pub fn percent(bounds: RangeInclusive<Percent>) -> impl Fn(&Scalar) -> Result<Percent, Wrong> {
    move |scalar| within(number(scalar, "a percentage")?, &bounds)
}

/// A factor within bounds.
pub fn factor(bounds: RangeInclusive<Factor>) -> impl Fn(&Scalar) -> Result<Factor, Wrong> {
    move |scalar| within(number(scalar, "a factor")?, &bounds)
}

fn number<T>(scalar: &Scalar, what: &str) -> Result<T, Wrong>
where
    T: FromStr<Err = &'static str>,
{
    refuse_null(scalar)?;
    refuse_quotes(scalar, "a number")?;
    scalar.text.parse().map_err(|why| {
        let text = one_line(&scalar.text);
        let wrong = Wrong::new(format!("{text} is not {what}: {why}"));
        wrong.hint(match text.strip_suffix('%') {
            Some(plain) if plain.parse::<T>().is_ok() => format!("write {plain}"),
            _ => "write it like 10 or 12.5".to_owned(),
        })
    })
}

fn refuse_quotes(scalar: &Scalar, wanted: &str) -> Result<(), Wrong> {
    match scalar.style {
        Style::Plain => Ok(()),
        Style::Quoted => {
            let wrong = Wrong::new(format!("quoted text: {wanted} is wanted"));
            Err(wrong.hint("remove the quotes"))
        }
    }
}

/// A whole number within bounds. Digits only: `012` is octal to some readers
/// and `1_000` a thousand, so both are refused.
pub fn count<T>(bounds: RangeInclusive<T>) -> impl Fn(&Scalar) -> Result<T, Wrong>
where
    T: Copy + Display + PartialOrd + TryFrom<u64>,
{
    move |scalar| {
        refuse_null(scalar)?;
        refuse_quotes(scalar, "a whole number")?;
        let text = scalar.text.as_str();
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        let octal = text.len() > 1 && text.starts_with('0');
        if octal || !digits || text.is_empty() {
            let negative = text
                .strip_prefix('-')
                .is_some_and(|n| n.parse::<u64>().is_ok());
            let (start, end) = (bounds.start(), bounds.end());
            let text = one_line(text);
            return Err(Wrong::new(match negative {
                true => format!("{text} is out of bounds: {start} to {end}"),
                false => format!("{text} is not a whole number: {start} to {end} is wanted"),
            }));
        }
        let value = text.parse::<u64>().ok().and_then(|n| T::try_from(n).ok());
        match value {
            Some(value) => within(value, &bounds),
            None => Err(Wrong::new(format!(
                "{} is out of bounds: {} to {}",
                one_line(text),
                bounds.start(),
                bounds.end()
            ))),
        }
    }
}

/// One of the spelled values of an enum.
pub fn choice<T: FromStr + VariantNames>(scalar: &Scalar) -> Result<T, Wrong> {
    refuse_null(scalar)?;
    let text = scalar.text.as_str();
    text.parse().map_err(|_| {
        let values = T::VARIANTS.join(", ");
        if is_boolean(scalar) {
            let why = "YAML 1.1 readers make a boolean of it";
            let wrong = Wrong::new(format!("{text} is not a value here: {why}"));
            return wrong.hint(format!("write one of {values}"));
        }
        let text = one_line(text);
        let wrong = Wrong::new(format!("{text} is not a value here: it is one of {values}"));
        match closest(&text, T::VARIANTS) {
            Some(meant) => wrong.hint(format!("did you mean {meant}?")),
            None => wrong,
        }
    })
}

/// `true` or `false`.
pub fn boolean(scalar: &Scalar) -> Result<bool, Wrong> {
    refuse_null(scalar)?;
    refuse_quotes(scalar, "true or false")?;
    match scalar.text.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(Wrong::new(format!(
            "{} is not a boolean: it is true or false",
            one_line(other)
        ))),
    }
}

/// A value, or null for none.
pub fn nullable<T>(
    read: impl Fn(&Scalar) -> Result<T, Wrong>,
) -> impl Fn(&Scalar) -> Result<Option<T>, Wrong> {
    move |scalar| match scalar.is_null() {
        true => Ok(None),
        false => read(scalar).map(Some),
    }
}

/// Exactly this text.
pub fn literal(wanted: &'static str) -> impl Fn(&Scalar) -> Result<(), Wrong> {
    move |scalar| match scalar.text == wanted {
        true => Ok(()),
        false => Err(Wrong::new(format!(
            "{} is not known here: it is {wanted}",
            one_line(&scalar.text)
        ))),
    }
}

/// A name of a policy or destination, fit for labels, tables and URLs.
pub fn name(scalar: &Scalar) -> Result<String, Wrong> {
    refuse_null(scalar)?;
    let text = scalar.text.as_str();
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let fits = text.bytes().all(|b| plain(b) || b == b'-' || b == b'.');
    let ends = |b: Option<u8>| b.is_some_and(plain);
    if text.len() > 63 || !fits || !ends(text.bytes().next()) || !ends(text.bytes().last()) {
        let why = "1 to 63 of a-z, 0-9, - and ., first and last a letter or digit";
        let wrong = Wrong::new(format!("{} is not a name: {why}", one_line(text)));
        let lower = text.to_ascii_lowercase().replace('_', "-");
        let meant = Scalar {
            text: lower,
            style: Style::Quoted,
        };
        return Err(match meant.text != text && name(&meant).is_ok() {
            true => wrong.hint(format!("write {}", meant.text)),
            false => wrong,
        });
    }
    if text == "other" {
        return Err(Wrong::new(
            "other is not a name: metrics put the rest under it",
        ));
    }
    Ok(text.to_owned())
}

/// A host name, in the form that is looked up: lower case, no trailing dot.
pub fn host(scalar: &Scalar) -> Result<String, Wrong> {
    refuse_null(scalar)?;
    let text = scalar.text.as_str();
    if text.parse::<IpAddr>().is_ok() || text.parse::<IpNet>().is_ok() {
        let wrong = Wrong::new(format!("{text} is not a host name: it is an address"));
        return Err(wrong.hint("list it under cidrs"));
    }
    let lower = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let numeric = |label: &str| label.bytes().all(|b| b.is_ascii_digit());
    if lower.len() > 253
        || !lower.split('.').all(label)
        || lower.rsplit('.').next().is_some_and(numeric)
    {
        let wrong = Wrong::new(format!(
            "{} is not a host name: labels of letters, digits and - are wanted, the last not a number",
            one_line(text)
        ));
        return Err(if text.contains('*') {
            wrong.hint("a name is resolved, so it can't hold *; list networks under cidrs")
        } else if text.contains(':') {
            wrong.hint("ports go under ports")
        } else {
            wrong
        });
    }
    Ok(lower)
}

/// A network, or a single address.
pub fn cidr(scalar: &Scalar) -> Result<IpNet, Wrong> {
    refuse_null(scalar)?;
    let text = scalar.text.as_str();
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let net = text.parse::<IpNet>().map_err(|_| {
        let wrong = Wrong::new(format!(
            "{} is not a network: an address and a prefix length are wanted",
            one_line(text)
        ));
        wrong.hint("write it like 10.0.8.0/24 or \"fd00:8::/64\"")
    })?;
    if net != net.trunc() {
        let wrong = Wrong::new(format!(
            "{net} is not a network: it has bits behind the prefix"
        ));
        return Err(wrong.hint(format!("write {} or {}", net.trunc(), net.addr())));
    }
    Ok(net)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> Scalar {
        Scalar {
            text: text.to_owned(),
            style: Style::Quoted,
        }
    }

    #[test]
    fn a_host_is_kept_in_the_form_that_is_looked_up() {
        assert_eq!(
            host(&quoted("Auth.Internal.")),
            Ok("auth.internal".to_owned())
        );
        assert_eq!(host(&quoted("_x.a-b")), Ok("_x.a-b".to_owned()));
    }

    #[test]
    fn an_address_alone_is_a_network_of_one() {
        assert_eq!(
            cidr(&quoted("10.0.0.1")).map(|n| n.to_string()),
            Ok("10.0.0.1/32".to_owned())
        );
        assert_eq!(
            cidr(&quoted("::1")).map(|n| n.to_string()),
            Ok("::1/128".to_owned())
        );
    }
}
