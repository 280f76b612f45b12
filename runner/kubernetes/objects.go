package kubernetes

import "time"

// The parts of Kubernetes' objects that are written or looked at here.
// https://kubernetes.io/docs/reference/kubernetes-api/ has the whole of them.

type meta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	CreationTimestamp *time.Time        `json:"creationTimestamp,omitempty"`
	DeletionTimestamp *time.Time        `json:"deletionTimestamp,omitempty"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// batchJob is a batch/v1 Job.
type batchJob struct {
	APIVersion string     `json:"apiVersion,omitempty"`
	Kind       string     `json:"kind,omitempty"`
	Metadata   meta       `json:"metadata"`
	Spec       jobSpec    `json:"spec"`
	Status     *jobStatus `json:"status,omitempty"`
}

type jobSpec struct {
	Suspend                 bool              `json:"suspend,omitempty"`
	Parallelism             int               `json:"parallelism"`
	Completions             int               `json:"completions"`
	BackoffLimit            int               `json:"backoffLimit"`
	PodReplacementPolicy    string            `json:"podReplacementPolicy"`
	PodFailurePolicy        *podFailurePolicy `json:"podFailurePolicy,omitempty"`
	TTLSecondsAfterFinished int               `json:"ttlSecondsAfterFinished"`
	Template                podTemplate       `json:"template"`
}

type podFailurePolicy struct {
	Rules []podFailureRule `json:"rules"`
}

type podFailureRule struct {
	Action          string              `json:"action"`
	OnPodConditions []podFailurePattern `json:"onPodConditions"`
}

type podFailurePattern struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

type jobStatus struct {
	Conditions []condition `json:"conditions,omitempty"`
}

type podTemplate struct {
	Metadata templateMeta `json:"metadata"`
	Spec     podSpec      `json:"spec"`
}

type templateMeta struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// Toleration lets pods run on nodes with a taint.
type Toleration struct {
	Key               string `json:"key,omitempty" yaml:"key"`
	Operator          string `json:"operator,omitempty" yaml:"operator"`
	Value             string `json:"value,omitempty" yaml:"value"`
	Effect            string `json:"effect,omitempty" yaml:"effect"`
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty" yaml:"toleration_seconds"`
}

type podSpec struct {
	RestartPolicy                 string            `json:"restartPolicy"`
	ActiveDeadlineSeconds         int64             `json:"activeDeadlineSeconds,omitempty"`
	TerminationGracePeriodSeconds int64             `json:"terminationGracePeriodSeconds"`
	AutomountServiceAccountToken  bool              `json:"automountServiceAccountToken"`
	ServiceAccountName            string            `json:"serviceAccountName,omitempty"`
	EnableServiceLinks            bool              `json:"enableServiceLinks"`
	ShareProcessNamespace         bool              `json:"shareProcessNamespace"`
	DNSPolicy                     string            `json:"dnsPolicy"`
	DNSConfig                     *dnsConfig        `json:"dnsConfig,omitempty"`
	PriorityClassName             string            `json:"priorityClassName,omitempty"`
	RuntimeClassName              string            `json:"runtimeClassName,omitempty"`
	NodeSelector                  map[string]string `json:"nodeSelector,omitempty"`
	Tolerations                   []Toleration      `json:"tolerations,omitempty"`
	ImagePullSecrets              []localReference  `json:"imagePullSecrets,omitempty"`
	SecurityContext               podSecurity       `json:"securityContext"`
	Containers                    []container       `json:"containers"`
	Volumes                       []podVolume       `json:"volumes"`
	NodeName                      string            `json:"nodeName,omitempty"`
}

type dnsConfig struct {
	Nameservers []string `json:"nameservers"`
}

type localReference struct {
	Name string `json:"name"`
}

type podSecurity struct {
	RunAsNonRoot        bool           `json:"runAsNonRoot"`
	RunAsUser           int            `json:"runAsUser"`
	RunAsGroup          int            `json:"runAsGroup"`
	FSGroup             *int           `json:"fsGroup,omitempty"`
	FSGroupChangePolicy string         `json:"fsGroupChangePolicy,omitempty"`
	SeccompProfile      seccompProfile `json:"seccompProfile"`
}

type seccompProfile struct {
	Type string `json:"type"`
}

type container struct {
	Name            string            `json:"name"`
	Image           string            `json:"image"`
	ImagePullPolicy string            `json:"imagePullPolicy"`
	Command         []string          `json:"command,omitempty"`
	Args            []string          `json:"args,omitempty"`
	Env             []envVar          `json:"env,omitempty"`
	Resources       resources         `json:"resources"`
	SecurityContext containerSecurity `json:"securityContext"`
	VolumeMounts    []volumeMount     `json:"volumeMounts"`
}

type envVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type resources struct {
	Limits   map[string]string `json:"limits,omitempty"`
	Requests map[string]string `json:"requests,omitempty"`
}

type containerSecurity struct {
	AllowPrivilegeEscalation bool         `json:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool         `json:"readOnlyRootFilesystem"`
	Capabilities             capabilities `json:"capabilities"`
}

type capabilities struct {
	Drop []string `json:"drop"`
}

type volumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	SubPath   string `json:"subPath,omitempty"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

type podVolume struct {
	Name     string       `json:"name"`
	Claim    *claimVolume `json:"persistentVolumeClaim,omitempty"`
	EmptyDir *emptyDir    `json:"emptyDir,omitempty"`
}

type claimVolume struct {
	ClaimName string `json:"claimName"`
}

type emptyDir struct {
	Medium    string `json:"medium,omitempty"`
	SizeLimit string `json:"sizeLimit,omitempty"`
}

type pod struct {
	APIVersion string     `json:"apiVersion,omitempty"`
	Kind       string     `json:"kind,omitempty"`
	Metadata   meta       `json:"metadata"`
	Spec       podSpec    `json:"spec"`
	Status     *podStatus `json:"status,omitempty"`
}

type podStatus struct {
	Phase             string            `json:"phase,omitempty"` // Pending, Running, Succeeded, Failed, Unknown
	Reason            string            `json:"reason,omitempty"`
	Message           string            `json:"message,omitempty"`
	StartTime         *time.Time        `json:"startTime,omitempty"`
	Conditions        []condition       `json:"conditions,omitempty"`
	ContainerStatuses []containerStatus `json:"containerStatuses,omitempty"`
}

type containerStatus struct {
	Name    string         `json:"name"`
	ImageID string         `json:"imageID,omitempty"`
	State   containerState `json:"state"`
}

type containerState struct {
	Waiting    *waitingState    `json:"waiting,omitempty"`
	Running    *struct{}        `json:"running,omitempty"`
	Terminated *terminatedState `json:"terminated,omitempty"`
}

type waitingState struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

type terminatedState struct {
	ExitCode int    `json:"exitCode"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
}

// networkPolicy is a networking.k8s.io/v1 NetworkPolicy.
type networkPolicy struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   meta              `json:"metadata"`
	Spec       networkPolicySpec `json:"spec"`
}

type networkPolicySpec struct {
	PodSelector labelSelector `json:"podSelector"`
	PolicyTypes []string      `json:"policyTypes"`
}

type labelSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type list[T any] struct {
	Items []T `json:"items"`
}

// deletion are the options of a DELETE.
type deletion struct {
	Kind              string         `json:"kind"`
	APIVersion        string         `json:"apiVersion"`
	PropagationPolicy string         `json:"propagationPolicy"`
	Preconditions     *preconditions `json:"preconditions,omitempty"`
}

type preconditions struct {
	UID string `json:"uid"`
}
