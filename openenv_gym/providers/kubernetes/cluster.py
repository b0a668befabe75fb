"""The API server of a cluster: found, asked, and what its refusals mean.

Objects go there and come back as plain dicts, as the published API has them, so that one version of
the official client serves clusters older and newer than itself.
"""

from __future__ import annotations

import http
import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openenv_gym import errors


__all__ = ["KINDS", "MANAGED_BY", "Cluster", "ClusterChoice", "connect_cluster"]

MANAGED_BY = "app.kubernetes.io/managed-by=openenv-gym"
"""Selector of everything that this library made."""

_BUDGETS = "poddisruptionbudgets"

KINDS = {
    "StatefulSet": ("apps", "v1", "statefulsets"),
    "NetworkPolicy": ("networking.k8s.io", "v1", "networkpolicies"),
    "PodDisruptionBudget": ("policy", "v1", _BUDGETS),
    "Service": ("", "v1", "service"),
    "Secret": ("", "v1", "secret"),
    "Pod": ("", "v1", "pod"),
    "Event": ("", "v1", "event"),
}
"""Group, version and plural of what is made; of the core group, the client's own name."""

_NO_LOG = (b"unable to retrieve container logs", b"failed to try resolving symlinks")
_TIMEOUT_S = 30.0
_WATCH_S = 2.0  # whoever asks whether a server still runs is in a step
_HELLO_S = 10.0
_IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class ClusterChoice:
    """Which cluster, and where in it.

    Attributes:
        config_file: kubeconfig; None is what ``KUBECONFIG`` says, ``~/.kube/config``, or, in a
            pod, its service account.
        context: Context there; None is the current one.
        namespace: None is that of the context, or of the pod.
    """

    config_file: str | None = None
    context: str | None = None
    namespace: str | None = None

    @classmethod
    def of(
        cls, config_file: str | None, context: str | None, namespace: str | None
    ) -> ClusterChoice:
        """Return the choice with what the environment says now: it may say something else later.

        Paths are made absolute, since others follow them: the guardian, which is at the root.
        """
        listed = (config_file or os.environ.get("KUBECONFIG") or "").split(os.pathsep)
        paths = [os.path.abspath(os.path.expanduser(path)) for path in listed if path]
        return cls(os.pathsep.join(paths) or None, context, namespace)


class Cluster:
    """The API of a cluster, for one namespace.

    Args:
        choice: Which cluster.

    Attributes:
        choice: As above, with the namespace that it came to.
        namespace: Where everything is made.

    Raises:
        ProviderUnavailableError: The client is not installed, or no API server answers.
        ProviderPermissionError: It does not let this user in.
    """

    def __init__(self, choice: ClusterChoice) -> None:
        try:
            import kubernetes
        except ImportError as error:
            raise errors.ProviderUnavailableError(
                "The Kubernetes provider needs the package kubernetes, which is not installed.",
                hint='Run pip install "openenv-gym[kubernetes]".',
            ) from error
        self._module: Any = kubernetes
        client, namespace = _load(kubernetes, choice)
        self.namespace = choice.namespace or namespace
        self.choice = ClusterChoice(choice.config_file, choice.context, self.namespace)
        self._client = client
        self._core: Any = kubernetes.client.CoreV1Api(client)
        self._custom: Any = kubernetes.client.CustomObjectsApi(client)
        self._versions = dict(KINDS)
        try:
            self._versions["PodDisruptionBudget"] = ("policy", self._policy(), _BUDGETS)
        except Exception as error:
            self.close()
            raise self.explain(error, "say which versions of its API it has") from error

    @property
    def host(self) -> str:
        """URL of the API server."""
        return str(self._client.configuration.host)

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def _policy(self) -> str:
        """Return the version of the disruption budgets: policy/v1 exists from 1.21 on."""
        api = self._module.client.PolicyApi(self._client)
        group = _plain(api.get_api_group(_preload_content=False, _request_timeout=_HELLO_S))
        versions = [each["version"] for each in group.get("versions", [])]
        return "v1" if "v1" in versions else "v1beta1"

    # -- objects ------------------------------------------------------------------------------

    def api_version(self, kind: str) -> str:
        """Return ``apiVersion`` of a kind, as this cluster has it."""
        group, version, _ = self._versions[kind]
        return f"{group}/{version}" if group else version

    def create(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object.

        Raises:
            OpenEnvGymError: It is refused; see `explain`.
        """
        return self._do(f"create the {kind} {body['metadata']['name']}", "create", kind, body)

    def read(self, kind: str, name: str, *, quick: bool = False) -> dict[str, Any] | None:
        """Return an object; None where there is none.

        Args:
            kind: Its kind.
            name: Its name.
            quick: Give up soon: a step is waiting.

        Raises:
            OpenEnvGymError: It cannot be had; see `explain`.
        """
        timeout_s = _WATCH_S if quick else _TIMEOUT_S
        try:
            return self._call("read", kind, name, timeout_s=timeout_s)
        except Exception as error:
            if _status_of(error) == http.HTTPStatus.NOT_FOUND:
                return None
            raise self.explain(error, f"read the {kind} {name}") from error

    def patch(self, kind: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object as a merge patch says (RFC 7386).

        Raises:
            OpenEnvGymError: It is refused; see `explain`.
        """
        return self._do(f"change the {kind} {name}", "patch", kind, name, body)

    def find(self, kind: str, selector: str = MANAGED_BY, fields: str = "") -> list[dict[str, Any]]:
        """Return the objects that a selector of labels, and one of fields, chooses.

        Raises:
            OpenEnvGymError: They cannot be had; see `explain`.
        """
        options: dict[str, Any] = {"label_selector": selector} if selector else {}
        if fields:
            options["field_selector"] = fields
        try:
            found = self._call("list", kind, **options)
        except Exception as error:
            raise self.explain(error, f"list each {kind}") from error
        items: list[dict[str, Any]] = found["items"]
        return items

    def delete(
        self, kind: str, name: str, *, grace_s: float | None = None, uid: str | None = None
    ) -> None:
        """Delete an object, and in the background all that it owns; one that is gone is fine.

        Args:
            kind: Its kind.
            name: Its name.
            grace_s: How long a pod may take to end.
            uid: Delete it only where it is this one, and not a later one of its name.

        Raises:
            OpenEnvGymError: It is refused; see `explain`.
        """
        body: dict[str, Any] = {"propagationPolicy": "Background"}
        if grace_s is not None:
            # 0 would take it from the list while it may still run.
            body["gracePeriodSeconds"] = max(1, round(grace_s))
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            self._call("delete", kind, name, body=body)
        except Exception as error:
            if _status_of(error) not in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT):
                raise self.explain(error, f"delete the {kind} {name}") from error

    def pod_log(self, name: str, *, lines: int, previous: bool = False) -> bytes:
        """Return the last lines that a pod wrote; nothing where they cannot be had.

        Args:
            name: Its name.
            lines: How many.
            previous: Of the container that ran in the pod before.
        """
        try:
            answer = self._core.read_namespaced_pod_log(
                name,
                self.namespace,
                tail_lines=lines,
                previous=previous,
                _preload_content=False,
                _request_timeout=_WATCH_S,
            )
            data: bytes = answer.data
        except Exception:
            return b""
        # What a node says, with status 200, of a container that it is about to remove, or has.
        return b"" if data.startswith(_NO_LOG) else data

    def forward(self, pod: str, port: int, timeout_s: float) -> Any:
        """Return the client's ``PortForward`` to a port of a pod.

        It has an API client of its own, since the official one changes it while it opens one.

        Raises:
            OpenEnvGymError: It is refused; see `explain`.
        """
        client = self._module.client.ApiClient(self._client.configuration)
        try:
            return self._module.stream.portforward(
                self._module.client.CoreV1Api(client).connect_get_namespaced_pod_portforward,
                pod,
                self.namespace,
                ports=str(port),
                _request_timeout=timeout_s,
            )
        except Exception as error:
            raise self.explain(error, f"forward to port {port} of the pod {pod}") from error
        finally:
            client.close()

    # -- the client ---------------------------------------------------------------------------

    def _do(self, what: str, verb: str, kind: str, *arguments: Any) -> dict[str, Any]:
        try:
            return self._call(verb, kind, *arguments)
        except Exception as error:
            raise self.explain(error, what) from error

    def _call(
        self, verb: str, kind: str, *arguments: Any, timeout_s: float = _TIMEOUT_S, **options: Any
    ) -> dict[str, Any]:
        group, version, plural = self._versions[kind]
        limits = {"_request_timeout": timeout_s, "_preload_content": False}
        if not group:
            method = getattr(self._core, f"{verb}_namespaced_{plural}")
            # The namespace comes behind the name, if there is one.
            name = arguments[:1] if verb in ("read", "patch", "delete") else ()
            return _plain(
                method(*name, self.namespace, *arguments[len(name) :], **options, **limits)
            )
        verb = "get" if verb == "read" else verb
        method = getattr(self._custom, f"{verb}_namespaced_custom_object")
        return _plain(
            method(group, version, self.namespace, plural, *arguments, **options, **limits)
        )

    def explain(self, error: BaseException, what: str) -> errors.OpenEnvGymError:
        """Return the error of this library that one of the client amounts to.

        Args:
            error: What the client raised.
            what: What was being done, such as ``"create the Secret openenv-echo-1"``.
        """
        if isinstance(error, errors.OpenEnvGymError):
            return error
        status, reason = _status_of(error), _reason_of(error)
        data = {"host": self.host, "namespace": self.namespace, "status": status}
        if status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            return errors.ProviderPermissionError(
                f"Kubernetes at {self.host} does not let this user {what}: {reason}",
                hint=f"Ask for a role in the namespace {self.namespace}; servers/kubernetes/rbac "
                "has one that is enough.",
                data=data,
            )
        if status is None or status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
            return errors.ProviderUnavailableError(
                f"Kubernetes at {self.host} cannot {what}: {reason}",
                hint="Is the cluster up, and does kubectl reach it?",
                data=data,
            )
        return errors.ServerStartError(f"Kubernetes cannot {what}: {reason}", data=data)


_clusters: dict[ClusterChoice, Cluster] = {}
_lock = threading.Lock()


def connect_cluster(choice: ClusterChoice) -> Cluster:
    """Return the API of a cluster, which all servers of this process share.

    Raises:
        ProviderUnavailableError: The client is not installed, or no API server answers.
        ProviderPermissionError: It does not let this user in.
    """
    with _lock:
        if choice not in _clusters:
            _clusters[choice] = Cluster(choice)
        return _clusters[choice]


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it
    _clusters.clear()  # their connections are the parent's


os.register_at_fork(after_in_child=_after_fork)


def _load(kubernetes: Any, choice: ClusterChoice) -> tuple[Any, str]:
    """Return an API client and the namespace that its configuration names."""
    config = kubernetes.config
    inside = "KUBERNETES_SERVICE_HOST" in os.environ
    try:
        if inside and choice.config_file is None and choice.context is None:
            configuration = kubernetes.client.Configuration()
            config.load_incluster_config(client_configuration=configuration)
            namespace = (_IN_CLUSTER / "namespace").read_text().strip()
            return kubernetes.client.ApiClient(configuration), namespace or "default"
        contexts, active = config.list_kube_config_contexts(choice.config_file)
        if choice.context is not None:
            active = next(each for each in contexts if each["name"] == choice.context)
        client = config.new_client_from_config(choice.config_file, choice.context)
        return client, active["context"].get("namespace") or "default"
    except StopIteration:
        names = ", ".join(repr(each["name"]) for each in contexts)
        raise errors.InvalidOptionError(
            f"context={choice.context!r:.80}: expected one of {names}.", field="context"
        ) from None
    except (config.ConfigException, OSError) as error:
        raise errors.ProviderUnavailableError(
            f"Nothing says which Kubernetes cluster to use: {error}",
            hint="Set KUBECONFIG, or pass config_file=.",
        ) from error


def _plain(answer: Any) -> dict[str, Any]:
    """Return what an answer holds, whatever the client made of it."""
    if isinstance(answer, dict):
        return answer
    plain: dict[str, Any] = json.loads(answer.data)
    return plain


def _status_of(error: BaseException) -> int | None:
    """Return the status with which the API server refused; None where it did not answer."""
    status = getattr(error, "status", None)
    return status if isinstance(status, int) and status else None


def _reason_of(error: BaseException) -> str:
    """Return what the API server itself said, as a sentence."""
    body = getattr(error, "body", None)
    text = str(error)
    try:
        text = json.loads(body)["message"] if body else text
    except (ValueError, KeyError, TypeError):
        text = str(getattr(error, "reason", "") or text)
    text = text.strip()
    return text if text.endswith(".") else f"{text}."
