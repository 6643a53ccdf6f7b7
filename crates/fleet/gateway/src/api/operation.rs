//! The form of the table of operations. The router, the checks of roles and arguments, and the OpenAPI document are generated from it, so they
//! cannot differ.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::http::Method;
use serde_json::{Map, Value};

use super::{ApiError, BODY_BYTES_MAX, LARGE_BODY_BYTES_MAX};
use crate::desired::Operator;
use crate::gateway::{By, Gateway};
use store::records::Role;

/// An operation of the API.
pub struct Operation {
    /// GET, POST or PUT.
    pub method: Method,
    /// Its path; `{name}` stands for any segment.
    pub path: &'static str,
    /// The role that it needs.
    pub role: Needed,
    /// Its description, in one sentence.
    pub summary: &'static str,
    /// Fields of the query.
    pub query: &'static [ApiField],
    /// Fields of the body, which is a JSON object.
    pub body: &'static [ApiField],
    /// Most bytes of the body.
    pub body_bytes_max: usize,
    /// Fields of the answer, which is a JSON object with a version.
    pub answer: &'static [ApiField],
    /// Its implementation.
    pub(super) handler: Handler,
}

/// The role that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// Operators with the role read, operate or admin.
    Read,
    /// The same, and partners, who see only their own sites.
    ReadOrPartner,
    /// Operators with the role operate or admin.
    Operate,
    /// The same, and partners, for nodes of their own sites.
    OperateOrPartner,
    /// Admins.
    Admin,
}

/// A field of a query, a body or an answer.
pub struct ApiField {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: FieldKind,
    /// Whether it is required.
    pub is_required: bool,
    /// Its description.
    pub what: &'static str,
}

/// Types of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A string.
    Text,
    /// A non-negative integer.
    Whole,
    /// A number.
    Number,
    /// A boolean.
    Truth,
    /// A list.
    List,
    /// An object.
    Object,
}

pub(super) type Answer = Result<Map<String, Value>, ApiError>;

pub(super) type Handler = fn(Call) -> Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A checked request: its operator has the role, and its fields are present and of the right types.
pub(super) struct Call {
    pub(super) gateway: Arc<Gateway>,
    pub(super) operator: Operator,
    pub(super) path: HashMap<String, String>,
    pub(super) query: HashMap<String, String>,
    pub(super) body: Map<String, Value>,
}

/// A required field.
pub(super) const fn needed(name: &'static str, kind: FieldKind, what: &'static str) -> ApiField {
    ApiField { name, kind, is_required: true, what }
}

/// An optional field, which may also be null.
pub(super) const fn maybe(name: &'static str, kind: FieldKind, what: &'static str) -> ApiField {
    ApiField { name, kind, is_required: false, what }
}

/// An operation that changes nothing.
pub(super) const fn get(
    path: &'static str,
    role: Needed,
    summary: &'static str,
    query: &'static [ApiField],
    answer: &'static [ApiField],
    handler: Handler,
) -> Operation {
    let (method, body_bytes_max) = (Method::GET, BODY_BYTES_MAX);
    Operation { method, path, role, summary, query, body: &[], body_bytes_max, answer, handler }
}

/// An operation that changes something.
pub(super) const fn post(
    path: &'static str,
    role: Needed,
    summary: &'static str,
    body: &'static [ApiField],
    answer: &'static [ApiField],
    handler: Handler,
) -> Operation {
    let (method, body_bytes_max) = (Method::POST, BODY_BYTES_MAX);
    Operation { method, path, role, summary, query: &[], body, body_bytes_max, answer, handler }
}

/// An operation of admins that replaces a record.
pub(super) const fn put(
    path: &'static str,
    summary: &'static str,
    body: &'static [ApiField],
    handler: Handler,
) -> Operation {
    let (method, role, body_bytes_max) = (Method::PUT, Needed::Admin, BODY_BYTES_MAX);
    let (query, answer) = (&[], body);
    Operation { method, path, role, summary, query, body, body_bytes_max, answer, handler }
}

/// An operation whose body may be large.
pub(super) const fn with_large_body(mut operation: Operation) -> Operation {
    operation.body_bytes_max = LARGE_BODY_BYTES_MAX;
    operation
}

impl Needed {
    /// Whether `role` is sufficient.
    pub(super) fn allows(self, role: &Role) -> bool {
        let rank = |role: &Role| match role {
            Role::Partner(_) => 0,
            Role::Read => 1,
            Role::Operate => 2,
            Role::Admin => 3,
        };
        match (self, role) {
            (Self::ReadOrPartner | Self::OperateOrPartner, Role::Partner(_)) => true,
            (Self::Read | Self::ReadOrPartner, role) => rank(role) >= 1,
            (Self::Operate | Self::OperateOrPartner, role) => rank(role) >= 2,
            (Self::Admin, role) => rank(role) >= 3,
        }
    }

    /// Its name in the OpenAPI document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadOrPartner => "read, or a partner for its own sites",
            Self::Operate => "operate",
            Self::OperateOrPartner => "operate, or a partner for its own sites",
            Self::Admin => "admin",
        }
    }
}

impl FieldKind {
    /// Its name in JSON Schema.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Whole => "integer",
            Self::Number => "number",
            Self::Truth => "boolean",
            Self::List => "array",
            Self::Object => "object",
        }
    }

    fn is_of(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Whole => value.is_u64(),
            Self::Number => value.is_number(),
            Self::Truth => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

/// Checks a body against its fields. Unknown fields are refused: they are typing errors, and ignoring them would hide that.
pub(super) fn check_body(fields: &[ApiField], body: &Map<String, Value>) -> Result<(), ApiError> {
    for name in body.keys() {
        check_known(fields, name)?;
    }
    for field in fields {
        match body.get(field.name).filter(|value| !value.is_null()) {
            None if field.is_required => {
                return Err(ApiError::Wrong(format!("{} is missing: {}", field.name, field.what)));
            }
            Some(value) if !field.kind.is_of(value) => {
                let (name, kind) = (field.name, field.kind.as_str());
                return Err(ApiError::Wrong(format!("{name} is not of type {kind}")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Like [`check_body`], for a query.
pub(super) fn check_query(
    fields: &[ApiField],
    query: &HashMap<String, String>,
) -> Result<(), ApiError> {
    for name in query.keys() {
        check_known(fields, name)?;
    }
    for field in fields {
        match query.get(field.name) {
            None if field.is_required => {
                return Err(ApiError::Wrong(format!("{} is missing: {}", field.name, field.what)));
            }
            Some(text) if field.kind == FieldKind::Whole && text.parse::<u64>().is_err() => {
                return Err(ApiError::Wrong(format!("{} is not a number", field.name)));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_known(fields: &[ApiField], name: &str) -> Result<(), ApiError> {
    if fields.iter().any(|field| field.name == name) {
        return Ok(());
    }
    let known: Vec<_> = fields.iter().map(|field| field.name).collect();
    Err(ApiError::Wrong(match known.is_empty() {
        true => format!("{name:?} is not known here: no fields are expected"),
        false => format!("{name:?} is not known here: expected are {}", known.join(", ")),
    }))
}

impl Call {
    /// The author and kind of a change, for the audit log.
    pub(super) fn by(&self, what: &'static str, detail: &str) -> By {
        By { who: self.operator.id.clone(), what, detail: detail.to_owned() }
    }

    /// A segment of the path. The route guarantees that it is present.
    pub(super) fn segment(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// A string in the body.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.body.get(name).and_then(Value::as_str)
    }

    /// A boolean in the body.
    pub(super) fn truth(&self, name: &str) -> Option<bool> {
        self.body.get(name).and_then(Value::as_bool)
    }

    /// An integer in the body.
    pub(super) fn whole(&self, name: &str) -> Option<u64> {
        self.body.get(name).and_then(Value::as_u64)
    }

    /// A number in the query.
    pub(super) fn query_whole(&self, name: &str) -> Option<u64> {
        self.query.get(name).and_then(|text| text.parse().ok())
    }

    /// The sites that the operator may see; `None` for all sites.
    pub(super) fn own_sites(&self) -> Option<&[fleet_protocol::Name]> {
        match &self.operator.role {
            Role::Partner(sites) => Some(sites),
            _ => None,
        }
    }
}
