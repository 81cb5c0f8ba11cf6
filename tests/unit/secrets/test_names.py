"""Which names are those of secrets, and where? One table of real ones, in both directions."""

import pytest

from limpet.secrets.known import (
    Rating,
    is_secret_key,
    is_secret_name,
    is_secret_variable,
    may_be_secret,
    rated,
)

RATED = {
    # A text under these is a secret wherever it stands.
    Rating.CERTAIN: """
        api_key apiKey API_KEY OPENAI_API_KEY AZURE_OPENAI_API_KEY NVIDIA_API_KEY LANGSMITH_API_KEY
        MY_APIKEY api_keys X-Api-Key x-goog-api-key xi-api-key api-key Ocp-Apim-Subscription-Key
        AWS_SECRET_ACCESS_KEY secretAccessKey access_key LANGFUSE_SECRET_KEY DJANGO_SECRET_KEY
        private_key privateKey signing_key encryption_key
        access_token refresh_token auth_token X-Auth-Token session_token AWS_SESSION_TOKEN
        bot_token SLACK_BOT_TOKEN sas_token HF_TOKEN hf_token bearer_token api_token
        password passwd passphrase db_password PGPASSWORD DBPASSWORD DATABASE_PASSWORD SSHPASS
        secret client_secret clientSecret AZURE_CLIENT_SECRET JWT_SECRET webhook_secret
        credential credentials GOOGLE_APPLICATION_CREDENTIALS X-Amz-Credential
        API_KEY_2 password1 DB_PASSWORD_PROD api_key_value""",
    # In a configuration and in shown code, too; in code they may be something else.
    Rating.USUAL: """
        account_key AZURE_STORAGE_KEY master_key raw_key passwords secrets dsn SENTRY_DSN
        pwd MYSQL_PWD bearer Cookie Set-Cookie Authorization Proxy-Authorization""",
    # In the environment, in a header and in an address; elsewhere what is given to them decides.
    Rating.DOUBTFUL: """
        AWS_ACCESS_KEY_ID access_key_id SECRET_KEY_BASE password_hash secret_santa
        GITHUB_PAT oauth_token Private-Token
        key keys token tokens GH_TOKEN GITHUB_TOKEN INPUT_TOKEN NPM_TOKEN HUGGING_FACE_HUB_TOKEN
        X-Vault-Token X-Amz-Security-Token X-Functions-Key COSMOS_PRIMARY_KEY primary_key public_key
        OPENAIKEY LANGFUSE_PUBLIC_KEY id_token input_key trajectory_key
        auth http_auth REDISCLI_AUTH oauth2 DB_PASS sig signature X-Amz-Signature X-Goog-Signature
        X-Hub-Signature-256 jwt""",
    # In a header, in an address, and in what we print.
    Rating.POSSIBLE: """
        session X-Session-Id JSESSIONID PHPSESSID key_vault_name authentication signature_version
        private_key_path password_file api_key_header api_key_name api_key_env password_reset""",
    # Nowhere.
    Rating.NO: """
        max_tokens maxTokens max_new_tokens max_output_tokens max_completion_tokens MAX_TOKENS
        prompt_tokens total_tokens num_tokens n_tokens stop_tokens stop_token pad_token eos_token
        eos_token_id bos_token unk_token token_limit token_count tokens_per_minute token_url
        tokenizer tokenizer_name tokenize TOKENIZERS_PARALLELISM
        id_key answer_key question_key generated_answer_key sort_key foreign_key cache_key
        partition_key keyboard keyword keywords monkey turkey hockey keynote
        passage compass bypass pattern path author authors authority GIT_AUTHOR_NAME XAUTHORITY
        secretary bearer_of_news custom_header_name headers
        SSH_AUTH_SOCK XDG_SESSION_ID DBUS_SESSION_BUS_ADDRESS DESKTOP_SESSION
        Content-Type Accept User-Agent X-Request-Id X-Role model temperature base_url name q page
        code state design""",
}
TABLE = [(name, rating) for rating, names in RATED.items() for name in names.split()]


@pytest.mark.parametrize(("name", "rating"), TABLE)
def test_a_name_is_rated_by_what_it_says(name, rating):
    assert rated(name) is rating


def test_a_harmless_word_does_not_hide_a_secret_beside_it():
    for name in ("tokenizer_api_key", "keyboard_password", "author_token", "max_tokens_secret"):
        assert rated(name) >= Rating.DOUBTFUL, name


@pytest.mark.parametrize(
    ("asked", "least"),
    [
        (is_secret_name, Rating.CERTAIN),
        (is_secret_variable, Rating.DOUBTFUL),
        (may_be_secret, Rating.POSSIBLE),
    ],
)
def test_code_asks_for_certainty_variables_for_doubt_and_headers_for_a_possibility(asked, least):
    assert [name for name, rating in TABLE if asked(name) is not (rating >= least)] == []


def test_a_configuration_hides_what_is_usual_and_of_variables_what_is_doubtful():
    secret = (
        "api_key", "apiKey", "x-api-key", "client_secret", "api_keys", "raw_key", "bearer", "dsn",
        "token", "token_value", "default_headers", "extra_headers", "MY_TOKEN", "SIGNING_KEY",
        "KEY", "DB_PASSWORD", "NGC_API_KEY",
    )  # fmt: skip
    plain = (
        "id_key", "question_key", "trajectory_key", "stop_token", "max_new_token", "max_tokens",
        "password_reset", "bearer_of_news", "monkey", "custom_header_name", "api_key_name", "keys",
        "tokenizer", "secretary", "signature", "auth", "input_key", "primary_key", "token_limit",
    )  # fmt: skip
    assert [name for name in secret if not is_secret_key(name)] == []
    assert [name for name in plain if is_secret_key(name)] == []
    assert is_secret_key("my_key", inside="env")
    assert not is_secret_key("sort_key", inside="env")
