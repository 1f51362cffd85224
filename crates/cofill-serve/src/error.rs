//! What a client is told when it gets no answer: one shape, a table of codes.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// An error as clients of OpenAI's interface read it.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    /// The status of the response.
    pub status: StatusCode,
    /// The family of the error.
    pub kind: &'static str,
    /// What exactly it is, for programs.
    pub code: Option<&'static str>,
    /// The field it is about.
    pub param: Option<String>,
    /// For people: field, limit, given value, remedy.
    pub message: String,
    /// When to come again, in seconds.
    pub retry_after: Option<u64>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: Option<&'static str>, message: impl Into<String>) -> ApiError {
        let mut message = message.into();
        // What was given is repeated in a message, and may be as long as a body.
        if let Some((end, _)) = message.char_indices().nth(MOST_CHARACTERS) {
            message.truncate(end);
            message.push('…');
        }
        ApiError { status, kind, code, param: None, message, retry_after: None }
    }

    /// A field that cannot be as it is.
    pub(crate) fn field(param: &str, message: impl Into<String>) -> ApiError {
        ApiError {
            param: Some(param.into()),
            ..ApiError::new(StatusCode::BAD_REQUEST, INVALID, Some("unsupported_value"), message)
        }
    }

    /// A request that is wrong as a whole, or of which a later stage found something wrong.
    pub(crate) fn invalid(code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, INVALID, Some(code), message)
    }

    /// A body that is too large.
    pub(crate) fn too_large(limit: usize) -> ApiError {
        let message =
            format!("the body is larger than {limit} bytes; send less, or start the server with --body-limit");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID, Some("body_too_large"), message)
    }

    /// A body that did not come in time.
    pub(crate) fn too_slow() -> ApiError {
        let message = "the body did not arrive in time; send it at once";
        ApiError::new(StatusCode::REQUEST_TIMEOUT, INVALID, Some("body_timeout"), message)
    }

    /// A body that says it is something else.
    pub(crate) fn not_json(given: &str) -> ApiError {
        let message = format!("`content-type` must be application/json, but is `{given}`; set the header");
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID, Some("unsupported_media_type"), message)
    }

    /// No key, or one that nobody gave out.
    pub(crate) fn key() -> ApiError {
        let message = "a valid API key is needed; send `authorization: Bearer KEY` or `x-api-key: KEY`";
        ApiError::new(StatusCode::UNAUTHORIZED, "authentication_error", Some("invalid_api_key"), message)
    }

    /// A page of somebody else, or a name that is not ours.
    pub(crate) fn origin(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, "permission_error", Some("forbidden_origin"), message)
    }

    /// Nothing is here.
    pub(crate) fn no_route(path: &str) -> ApiError {
        let path: String = path.chars().take(80).collect();
        ApiError::new(
            StatusCode::NOT_FOUND,
            NOT_FOUND,
            None,
            format!("there is no `{path}`; /openapi.json lists what is"),
        )
    }

    /// Something is here, but not for this method.
    pub(crate) fn method() -> ApiError {
        let message = "this method is not for this path; /openapi.json lists what is";
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, INVALID, None, message)
    }

    /// A model that is not served.
    pub(crate) fn no_model(given: &str, served: &[String]) -> ApiError {
        let given: String = given.chars().take(200).collect();
        let meant = cofill::did_you_mean(&given, served.iter().map(String::as_str));
        let message = format!("the model `{given}` is not served here{meant}; served are `{}`", served.join("`, `"));
        ApiError {
            param: Some("model".into()),
            ..ApiError::new(StatusCode::NOT_FOUND, NOT_FOUND, Some("model_not_found"), message)
        }
    }

    /// What the interface has and this server does not.
    pub(crate) fn not_supported(param: &str, message: impl Into<String>) -> ApiError {
        let status = StatusCode::NOT_IMPLEMENTED;
        ApiError { param: Some(param.into()), ..ApiError::new(status, "not_supported_error", None, message) }
    }

    /// Too much at once.
    pub(crate) fn busy(code: &'static str, message: impl Into<String>, retry_after: u64) -> ApiError {
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", Some(code), message);
        ApiError { retry_after: Some(retry_after.clamp(1, 60)), ..error }
    }

    /// Not now.
    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>, retry_after: u64) -> ApiError {
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable_error", Some(code), message);
        ApiError { retry_after: Some(retry_after.clamp(1, 60)), ..error }
    }

    /// The model or the sampler failed at this request.
    pub(crate) fn decode_failed(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", Some("decode_failed"), message)
    }

    /// The whole, as it is written in a body or in the data of a stream.
    pub(crate) fn body(&self) -> Value {
        json!({"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}})
    }
}

/// Of a message.
const MOST_CHARACTERS: usize = 1000;
const INVALID: &str = "invalid_request_error";
const NOT_FOUND: &str = "not_found_error";

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::INTERNAL_SERVER_ERROR {
            // The same request would fail the same way.
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// What an engine refuses is mostly the request's fault.
impl From<cofill_engine::Error> for ApiError {
    fn from(error: cofill_engine::Error) -> ApiError {
        use cofill_engine::{Error, LanguageError};
        let message = error.to_string();
        match error {
            Error::TooLong { .. } => ApiError::invalid("context_length_exceeded", message),
            Error::Model(cofill_model::Error::TooLong { .. }) => ApiError::invalid("context_length_exceeded", message),
            Error::Language(
                LanguageError::Unsatisfiable { .. }
                | LanguageError::Contradiction { .. }
                | LanguageError::NoFit { .. }
                | LanguageError::NoText { .. },
            ) => ApiError::invalid("unsatisfiable_schema", message),
            Error::Language(_) => ApiError::invalid("invalid_schema", message),
            Error::Model(cofill_model::Error::Compute(_)) => ApiError::decode_failed(message),
            _ => ApiError::invalid("unsupported_value", message),
        }
    }
}
