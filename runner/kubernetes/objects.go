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
	OwnerReferences   []ownerReference  `json:"ownerReferences,omitempty"`
}

// ownerReference names the object with whose end another one is removed.
type ownerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
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
	HostAliases                   []hostAlias       `json:"hostAliases,omitempty"`
	InitContainers                []container       `json:"initContainers,omitempty"`
	Containers                    []container       `json:"containers"`
	Volumes                       []podVolume       `json:"volumes"`
	NodeName                      string            `json:"nodeName,omitempty"`
}

type dnsConfig struct {
	Nameservers []string `json:"nameservers"`
}

// hostAlias is a line of the pod's /etc/hosts.
type hostAlias struct {
	IP        string   `json:"ip"`
	Hostnames []string `json:"hostnames"`
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
	Name            string   `json:"name"`
	Image           string   `json:"image"`
	ImagePullPolicy string   `json:"imagePullPolicy"`
	Command         []string `json:"command,omitempty"`
	Args            []string `json:"args,omitempty"`
	Env             []envVar `json:"env,omitempty"`
	// RestartPolicy Always of an init container makes it run beside those that
	// follow, and end after them.
	RestartPolicy            string            `json:"restartPolicy,omitempty"`
	TerminationMessagePolicy string            `json:"terminationMessagePolicy,omitempty"`
	Resources                resources         `json:"resources"`
	SecurityContext          containerSecurity `json:"securityContext"`
	VolumeMounts             []volumeMount     `json:"volumeMounts"`
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
	RunAsUser                int          `json:"runAsUser,omitempty"` // 0: the pod's
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
	Name     string        `json:"name"`
	Claim    *claimVolume  `json:"persistentVolumeClaim,omitempty"`
	EmptyDir *emptyDir     `json:"emptyDir,omitempty"`
	Secret   *secretVolume `json:"secret,omitempty"`
}

type secretVolume struct {
	SecretName  string `json:"secretName"`
	DefaultMode int    `json:"defaultMode"`
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
	InitStatuses      []containerStatus `json:"initContainerStatuses,omitempty"`
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
	Egress      []egressRule  `json:"egress,omitempty"`
}

type egressRule struct {
	To    []policyPeer `json:"to"`
	Ports []policyPort `json:"ports"`
}

type policyPeer struct {
	IPBlock ipBlock `json:"ipBlock"`
}

type ipBlock struct {
	CIDR string `json:"cidr"`
}

type policyPort struct {
	Protocol string `json:"protocol"`
	Port     int    `json:"port"`
}

func (n *networkPolicy) metadata() *meta { return &n.Metadata }
func (n *networkPolicy) kind() (group, kind string) {
	return "apis/networking.k8s.io/v1", "networkpolicies"
}

// secret is a v1 Secret.
type secret struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   meta              `json:"metadata"`
	Data       map[string][]byte `json:"data"`
}

func (s *secret) metadata() *meta            { return &s.Metadata }
func (s *secret) kind() (group, kind string) { return "api/v1", "secrets" }

// owned is an object that a Job's pods need and that ends with the Job.
type owned interface {
	metadata() *meta
	kind() (group, kind string) // of its address
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
