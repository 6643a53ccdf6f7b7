//! One table says what the operator's API can do. The router, the checks of roles and arguments, and the OpenAPI document are made from it, so they
//! cannot differ.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::http::Method;
use serde_json::{Map, Value};

use super::ApiError;
use crate::desired::Operator;
use crate::gateway::{By, Gateway};
use crate::store::records::Role;

/// Something that the API can do.
pub struct Operation {
    /// GET, POST or PUT.
    pub method: Method,
    /// Its path; `{name}` stands for one segment.
    pub path: &'static str,
    /// Who may ask for it.
    pub role: Needed,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// What stands in the query.
    pub query: &'static [ApiField],
    /// What stands in the body, which is a JSON object.
    pub body: &'static [ApiField],
    /// Most bytes of the body.
    pub body_bytes_max: usize,
    /// What the answer has, which is a JSON object with a version.
    pub answer: &'static [ApiField],
    /// What does it.
    pub(super) handler: Handler,
}

/// Who may ask for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// Operators with the role read, operate or admin.
    Read,
    /// The same, and partners: they see their own sites.
    ReadOrPartner,
    /// Operators with the role operate or admin.
    Operate,
    /// The same, and partners for nodes of their own sites.
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
    /// Whether it must be there.
    pub is_required: bool,
    /// What it is.
    pub what: &'static str,
}

/// Kinds of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A text.
    Text,
    /// A whole number, not negative.
    Whole,
    /// A number.
    Number,
    /// True or false.
    Truth,
    /// A list.
    List,
    /// An object.
    Object,
}

pub(super) type Answer = Result<Map<String, Value>, ApiError>;

pub(super) type Handler = fn(Call) -> Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A request that may be made: its operator has the role, its fields are there and of their kinds.
pub(super) struct Call {
    pub(super) gateway: Arc<Gateway>,
    pub(super) operator: Operator,
    pub(super) path: HashMap<String, String>,
    pub(super) query: HashMap<String, String>,
    pub(super) body: Map<String, Value>,
}

/// A field that must be there.
pub(super) const fn needed(name: &'static str, kind: FieldKind, what: &'static str) -> ApiField {
    ApiField { name, kind, is_required: true, what }
}

/// A field that may be left out or null.
pub(super) const fn maybe(name: &'static str, kind: FieldKind, what: &'static str) -> ApiField {
    ApiField { name, kind, is_required: false, what }
}

impl Needed {
    /// Whether `role` is enough.
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

    /// As the document names it.
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
    /// As JSON Schema names it.
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

/// Checks a body against its fields. A field that nobody knows is refused: it is a typing mistake whose author would wait for its effect.
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
                return Err(ApiError::Wrong(format!("{name} is not of the kind {kind}")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// As [`check_body`], for a query.
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
        true => format!("{name:?} is not known here: this takes nothing"),
        false => format!("{name:?} is not known here: this takes {}", known.join(", ")),
    }))
}

impl Call {
    /// Who does `what`, for the audit log.
    pub(super) fn by(&self, what: &'static str, detail: &str) -> By {
        By { who: self.operator.id.clone(), what, detail: detail.to_owned() }
    }

    /// A segment of the path. The route has it.
    pub(super) fn segment(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// A text of the body.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.body.get(name).and_then(Value::as_str)
    }

    /// Whether the body says that something holds.
    pub(super) fn truth(&self, name: &str) -> Option<bool> {
        self.body.get(name).and_then(Value::as_bool)
    }

    /// A whole number of the body.
    pub(super) fn whole(&self, name: &str) -> Option<u64> {
        self.body.get(name).and_then(Value::as_u64)
    }

    /// A number of the query.
    pub(super) fn query_whole(&self, name: &str) -> Option<u64> {
        self.query.get(name).and_then(|text| text.parse().ok())
    }

    /// The sites that the operator may see; `None`: all.
    pub(super) fn own_sites(&self) -> Option<&[fleet::Name]> {
        match &self.operator.role {
            Role::Partner(sites) => Some(sites),
            _ => None,
        }
    }
}
