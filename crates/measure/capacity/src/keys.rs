//! Reads tables of TOML key by key, so that each mistake gets one line with the key's name and an example.

use std::ops::RangeInclusive;
use toml::{Table, Value};

/// Why a machine cannot be planned, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadMachine(pub(crate) String);

/// A key with a number.
pub(crate) struct Number {
    pub(crate) key: &'static str,
    /// What the number means, with its unit.
    pub(crate) what: &'static str,
    /// The plausible range. Beyond it, the unit must be wrong.
    pub(crate) range: RangeInclusive<f64>,
    pub(crate) example: &'static str,
}

impl Number {
    fn hint(&self) -> String {
        format!("{}, for example {} = {}", self.what, self.key, self.example)
    }
}

/// A table whose keys are taken out one by one. A key left over at the end is a mistake.
pub(crate) struct Section {
    /// The name for messages, such as `[workload]` or `[[card]] 2`.
    name: String,
    table: Table,
    known: Vec<&'static str>,
}

impl Section {
    pub(crate) fn new(name: String, table: Table) -> Self {
        Self { name, table, known: Vec::new() }
    }

    pub(crate) fn wrong(&self, key: &str, why: &str) -> BadMachine {
        BadMachine(format!("{}: {key} {why}", self.name))
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.table.remove(key)
    }

    /// Takes a number within its range, if it is there.
    pub(crate) fn number(&mut self, number: &Number) -> Result<Option<f64>, BadMachine> {
        let Some(value) = self.take(number.key) else { return Ok(None) };
        let figure = match &value {
            Value::Integer(integer) => *integer as f64,
            Value::Float(float) => *float,
            other => {
                let why =
                    format!("= {other} is not a number: write {}, without a unit", number.hint());
                return Err(self.wrong(number.key, &why));
            }
        };
        if number.range.contains(&figure) {
            return Ok(Some(figure));
        }
        let (low, high) = (number.range.start(), number.range.end());
        let why = if figure > *high {
            format!("= {value} is more than {high}: is the unit right? It is {}", number.hint())
        } else {
            format!("= {value} is not within {low} to {high}: write {}", number.hint())
        };
        Err(self.wrong(number.key, &why))
    }

    /// Takes a required number.
    pub(crate) fn required(&mut self, number: &Number) -> Result<f64, BadMachine> {
        let found = self.number(number)?;
        found.ok_or_else(|| self.wrong(number.key, &format!("is missing: {}", number.hint())))
    }

    /// Takes a count: a number without a fraction.
    pub(crate) fn whole(&mut self, number: &Number) -> Result<Option<f64>, BadMachine> {
        match self.number(number)? {
            Some(figure) if figure.fract() != 0.0 => {
                let why = format!("= {figure} is not whole: write {}", number.hint());
                Err(self.wrong(number.key, &why))
            }
            figure => Ok(figure),
        }
    }

    /// Takes a required count.
    pub(crate) fn required_whole(&mut self, number: &Number) -> Result<f64, BadMachine> {
        let found = self.whole(number)?;
        found.ok_or_else(|| self.wrong(number.key, &format!("is missing: {}", number.hint())))
    }

    /// Takes `true` or `false`.
    pub(crate) fn flag(
        &mut self,
        key: &'static str,
        what: &str,
    ) -> Result<Option<bool>, BadMachine> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Boolean(flag)) => Ok(Some(flag)),
            Some(other) => {
                let why = format!(
                    "= {other} is neither true nor false: {what}, for example {key} = true"
                );
                Err(self.wrong(key, &why))
            }
        }
    }

    /// Takes one of these words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, BadMachine> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let found = value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        let all: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let why =
            format!("= {value} is not one of {}, for example {key} = {}", all.join(", "), all[0]);
        found.map(|(_, is)| Some(*is)).ok_or_else(|| self.wrong(key, &why))
    }

    /// Takes a text.
    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>, BadMachine> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self
                .wrong(key, &format!("= {other} is not a text, for example {key} = \"10G box\""))),
        }
    }

    /// Takes a list of node numbers.
    pub(crate) fn nodes(
        &mut self,
        key: &'static str,
        count: usize,
    ) -> Result<Option<Vec<usize>>, BadMachine> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let nodes: Option<Vec<usize>> = value.as_array().and_then(|array| {
            let node = |value: &Value| {
                usize::try_from(value.as_integer()?).ok().filter(|node| *node < count)
            };
            array.iter().map(node).collect()
        });
        let mut nodes = nodes.unwrap_or_default();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.is_empty() {
            let why = format!(
                "= {value} is not a list of nodes (0 to {}), for example {key} = [0]",
                count - 1
            );
            return Err(self.wrong(key, &why));
        }
        Ok(Some(nodes))
    }

    /// Takes a table with this name; `None` if there is none.
    pub(crate) fn section(&mut self, key: &'static str) -> Result<Option<Self>, BadMachine> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(Self::new(format!("[{key}]"), table))),
            Some(_) => Err(self.wrong(key, &format!("is a table: begin it with a line [{key}]"))),
        }
    }

    /// Takes all tables of one kind; empty if there are none.
    pub(crate) fn sections(&mut self, key: &'static str) -> Result<Vec<Self>, BadMachine> {
        let wrong = |section: &Self| {
            section.wrong(key, &format!("is a list of tables: begin each with a line [[{key}]]"))
        };
        let array = match self.take(key) {
            None => return Ok(Vec::new()),
            Some(Value::Array(array)) => array,
            Some(_) => return Err(wrong(self)),
        };
        let mut sections = Vec::new();
        for (number, value) in (1..).zip(array) {
            let Value::Table(table) = value else { return Err(wrong(self)) };
            sections.push(Self::new(format!("[[{key}]] {number}"), table));
        }
        Ok(sections)
    }

    /// Fails if keys are left over. Call it last.
    pub(crate) fn end(self) -> Result<(), BadMachine> {
        let Some(key) = self.table.keys().next() else { return Ok(()) };
        Err(self.wrong(key, &format!("is not a key: there are {}", self.known.join(", "))))
    }
}
